import { and, eq, isNotNull, sql } from "drizzle-orm";
import type { Status } from "../outcome.ts";
import { recordEvent } from "./events.ts";
import { laneVerbs } from "./lanes.ts";
import { runs } from "./schema.ts";
import type { StoreContext } from "./store.ts";

const nothing = JSON.stringify({ result: null, error: null, changedFiles: null });

/**
 * Returns the function that cancels a run that has no owner, inside the caller's transaction. One that has not
 * begun ends at once. One that has is queued for the next worker, which ends what an earlier owner left running and makes
 * the products of what was done. Gives the status.
 *
 * A retry that ends before it began has replaced nothing: the run that it was to replace stands again.
 */
export function cancelRun(context: StoreContext): (run: { id: string; lane: string | null }) => Status {
  const { db, now } = context;
  const { placeholder } = sql;
  const record = recordEvent(context);
  const lanes = laneVerbs(context);
  const findBegun = db
    .select({ id: runs.id })
    .from(runs)
    .where(and(eq(runs.id, placeholder("id")), isNotNull(runs.promptHash)))
    .prepare();
  const noWait = { waitKind: null, waitNote: null, wakeAt: null };
  const hand = db
    .update(runs)
    .set({
      ...noWait,
      status: "queued",
      cancelAt: sql`coalesce(${runs.cancelAt}, ${placeholder("now")})`,
      generation: sql`${runs.generation} + 1`,
    })
    .where(eq(runs.id, placeholder("id")))
    .prepare();
  const end = db
    .update(runs)
    .set({
      ...noWait,
      status: "cancelled",
      reason: "cancelled",
      outcome: nothing,
      finishedAt: sql`${placeholder("now")}`,
    })
    .where(eq(runs.id, placeholder("id")))
    .prepare();
  const supersede = db
    .update(runs)
    .set({ superseded: sql`${placeholder("superseded")}` })
    .where(eq(runs.id, placeholder("id")))
    .prepare();
  const findRetried = db
    .select({ id: runs.originRunId })
    .from(runs)
    .where(and(eq(runs.id, placeholder("id")), eq(runs.origin, "retry")))
    .prepare();

  /** In this order: a key stands for one run at every moment. */
  function giveBack(id: string): void {
    const retried = findRetried.get({ id })?.id;
    if (retried == null) return;
    supersede.run({ id, superseded: 1 });
    supersede.run({ id: retried, superseded: 0 });
    record({ kind: "retry_cancelled", runId: retried, data: { retry: id } });
  }

  return ({ id, lane }) => {
    if (findBegun.get({ id })) {
      hand.run({ id, now: now() });
      return "queued";
    }
    end.run({ id, now: now() });
    lanes.leave(lane);
    giveBack(id);
    record({ kind: "finished", runId: id, data: { status: "cancelled", reason: "cancelled" } });
    return "cancelled";
  };
}
