import { and, desc, eq, isNotNull, isNull, sql } from "drizzle-orm";
import type { TaskSpec } from "../producer/task.ts";
import { runs } from "./schema.ts";
import type { StoreContext } from "./store.ts";

/** What has limited room: a folder that runs work in as it is. Clones do not disturb each other and have no lane. */
export function laneOf(spec: Pick<TaskSpec, "dir">): string | null {
  return spec.dir === null ? null : `dir:${spec.dir}`;
}

/**
 * `ready` is kept up to date here, so that a claim never has to look for room: in a lane only its holder has ready = 1,
 * from when it is queued until it ends. All of it runs inside the caller's transaction.
 */
export function laneVerbs({ db }: StoreContext) {
  const { placeholder } = sql;
  const findHolder = db
    .select({ id: runs.id, status: runs.status, epoch: runs.epoch, priority: runs.priority })
    .from(runs)
    .where(
      and(eq(runs.lane, placeholder("lane")), isNotNull(runs.lane), sql`ready = 1`, isNull(runs.finishedAt)),
    )
    .prepare();
  const findNext = db
    .select({ id: runs.id })
    .from(runs)
    .where(and(eq(runs.lane, placeholder("lane")), sql`status = 'queued' AND ready = 0`))
    .orderBy(desc(runs.priority), runs.id)
    .limit(1)
    .prepare();
  const hold = db
    .update(runs)
    .set({ ready: 0 })
    .where(eq(runs.id, placeholder("id")))
    .prepare();
  // A new generation: the queue may have been told of it while nobody could claim it.
  const free = db
    .update(runs)
    .set({ ready: 1, generation: sql`${runs.generation} + 1` })
    .where(eq(runs.id, placeholder("id")))
    .prepare();

  return {
    /** Whether a run that is queued now may be claimed: 1 or 0. A more urgent one takes the place of a head that has not begun. */
    enter(lane: string | null, priority: number): 0 | 1 {
      if (lane === null) return 1;
      const holder = findHolder.get({ lane });
      if (!holder) return 1;
      const hasBegun = holder.status !== "queued" || holder.epoch > 0;
      if (hasBegun || holder.priority >= priority) return 0;
      hold.run({ id: holder.id });
      return 1;
    },
    /** Gives the lane of a run that ended to the next in line. */
    leave(lane: string | null): void {
      if (lane === null || findHolder.get({ lane })) return;
      const next = findNext.get({ lane });
      if (next) free.run({ id: next.id });
    },
  };
}
