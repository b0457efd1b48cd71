import { eq, sql } from "drizzle-orm";
import { recordEvent } from "./events.ts";
import { laneVerbs } from "./lanes.ts";
import { runs } from "./schema.ts";
import type { StoreContext } from "./store.ts";

const nothing = JSON.stringify({ result: null, error: null, changedFiles: null });

/** Returns the function that ends a run that has no owner as cancelled, inside the caller's transaction. */
export function cancelRun(context: StoreContext): (run: { id: string; lane: string | null }) => void {
  const { db, now } = context;
  const record = recordEvent(context);
  const lanes = laneVerbs(context);
  const end = db
    .update(runs)
    .set({
      status: "cancelled",
      reason: "cancelled",
      outcome: nothing,
      finishedAt: sql`${sql.placeholder("now")}`,
      waitKind: null,
      waitNote: null,
      wakeAt: null,
    })
    .where(eq(runs.id, sql.placeholder("id")))
    .prepare();
  return ({ id, lane }) => {
    end.run({ id, now: now() });
    lanes.leave(lane);
    record({ kind: "finished", runId: id, data: { status: "cancelled", reason: "cancelled" } });
  };
}
