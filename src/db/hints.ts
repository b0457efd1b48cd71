import { and, eq, lte, sql } from "drizzle-orm";
import type { Hint } from "../queue/queue.ts";
import { pageSize } from "./each-row.ts";
import { runs } from "./schema.ts";
import type { StoreContext } from "./store.ts";

/** What the database knows of the hints that a queue was given. */
export function hintVerbs({ sqlite, db, read, write }: StoreContext) {
  const { placeholder } = sql;
  // The plus keeps SQLite on the index of what is queued; by the primary key it would read every run that ever ended.
  const findUnpublished = sqlite.prepare<{ afterId: string }, Hint>(`
    SELECT id AS runId, generation FROM runs
    WHERE status = 'queued' AND ready = 1 AND published < generation AND +id > @afterId ORDER BY +id LIMIT ${pageSize}`);
  const findQueued = sqlite.prepare<{ afterId: string }, Hint>(`
    SELECT id AS runId, generation FROM runs
    WHERE status = 'queued' AND ready = 1 AND id > @afterId ORDER BY id LIMIT ${pageSize}`);
  const findCurrent = sqlite.prepare<Hint, { id: string }>(`
    SELECT id FROM runs WHERE id = @runId AND generation = @generation AND status = 'queued' AND ready = 1`);
  const mark = db
    .update(runs)
    .set({ published: sql`${placeholder("generation")}` })
    .where(and(eq(runs.id, placeholder("runId")), lte(runs.published, placeholder("generation"))))
    .prepare();

  return {
    /** A page of the runs after `afterId` that can be claimed and of whose newest generation no queue has been told. */
    loadUnpublished(afterId = ""): Promise<Hint[]> {
      return read(() => findUnpublished.all({ afterId }));
    },

    /** A page of the runs after `afterId` that can be claimed, whatever a queue has been told. */
    loadClaimable(afterId = ""): Promise<Hint[]> {
      return read(() => findQueued.all({ afterId }));
    },

    /** Each hint is marked by itself: one that cannot be marked is published again, and so is no other. */
    async markPublished(hints: Hint[]): Promise<void> {
      await Promise.all(hints.map((hint) => write(() => mark.run({ ...hint }))));
    },

    /**
     * Those of the hints that nobody needs: their run has ended, is gone, is owned, or has a newer generation. A hint that
     * is stale once is so for ever, since a run that is queued again has a generation more.
     */
    loadStale(hints: Hint[]): Promise<Hint[]> {
      return read(() => hints.filter(({ runId, generation }) => !findCurrent.get({ runId, generation })));
    },
  };
}
