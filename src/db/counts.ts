import { and, eq, sql } from "drizzle-orm";
import { dayOf } from "../limits/budget.ts";
import type { WaitKind } from "../outcome.ts";
import { requireBatch } from "./batches.ts";
import { heldByBudget } from "./budgets.ts";
import { runs, workers } from "./schema.ts";
import type { StoreContext } from "./store.ts";

/** Of no run. */
export const nothingUsed = {
  promptTokens: 0,
  completionTokens: 0,
  cachedTokens: 0,
  costMicro: 0,
  unpricedCalls: 0,
};

/** Reads that add up, and what workers ask at every look. */
export function countVerbs({ sqlite, db, read, now }: StoreContext) {
  // A run behind another in its lane (ready = 0) has work only through the one before it. One look-up a batch.
  const findWork = sqlite.prepare<{ wakeBefore: number; day: string }, { found: number }>(`
    SELECT EXISTS (SELECT 1 FROM runs WHERE status = 'running')
      OR EXISTS (SELECT 1 FROM batches WHERE paused_at IS NULL AND (max_running IS NULL OR max_running > 0)
        AND EXISTS (SELECT 1 FROM runs WHERE batch_id = batches.id AND status = 'queued' AND ready = 1 AND NOT ${heldByBudget}))
      OR EXISTS (SELECT 1 FROM runs WHERE status = 'waiting' AND wake_at IS NOT NULL AND wake_at <= @wakeBefore
        AND wait_kind IN ('quota', 'timer')) AS found`);
  const findAsked = db
    .select({ id: runs.id, cancelAt: runs.cancelAt, pauseAt: runs.pauseAt })
    .from(runs)
    .where(
      and(
        eq(runs.ownerId, sql.placeholder("workerId")),
        sql`status = 'running' AND (cancel_at IS NOT NULL OR pause_at IS NOT NULL)`,
      ),
    )
    .prepare();

  return {
    /** How many runs there are, by status and reason, superseded ones aside; and what all of them used, those too. */
    countRuns(batch?: string) {
      return read(() => {
        const inBatch = batch === undefined ? undefined : eq(runs.batchId, requireBatch(db, batch));
        const counts = db
          .select({ status: runs.status, reason: runs.reason, count: sql<number>`count(*)` })
          .from(runs)
          .where(and(sql`superseded = 0`, inBatch))
          .groupBy(runs.status, runs.reason)
          .all();
        const usage =
          db
            .select({
              promptTokens: sql<number>`coalesce(sum(prompt_tokens), 0)`,
              completionTokens: sql<number>`coalesce(sum(completion_tokens), 0)`,
              cachedTokens: sql<number>`coalesce(sum(cached_tokens), 0)`,
              costMicro: sql<number>`coalesce(sum(cost_micro), 0)`,
              unpricedCalls: sql<number>`coalesce(sum(unpriced_calls), 0)`,
            })
            .from(runs)
            .where(inBatch)
            .get() ?? nothingUsed;
        return { counts, usage };
      });
    },

    /** What runs wait for: how many for each kind, when the first of them wakes, and its note. */
    countWaiting(
      batch?: string,
    ): Promise<{ kind: WaitKind | null; count: number; wakeAt: number | null; note: string | null }[]> {
      return read(() => {
        const inBatch = batch === undefined ? undefined : eq(runs.batchId, requireBatch(db, batch));
        return db
          .select({
            kind: runs.waitKind,
            count: sql<number>`count(*)`,
            // SQLite takes the other columns from the row that has the least.
            wakeAt: sql<number | null>`min(wake_at)`,
            note: runs.waitNote,
          })
          .from(runs)
          .where(and(sql`status = 'waiting' AND superseded = 0`, inBatch))
          .groupBy(runs.waitKind)
          .orderBy(runs.waitKind)
          .all();
      });
    },

    /** Workers that have not stopped, and how many runs each owns. */
    countOwned(): Promise<(typeof workers.$inferSelect & { running: number })[]> {
      const owned = sql<number>`(SELECT count(*) FROM runs WHERE owner_id = workers.id AND status = 'running')`;
      return read(() =>
        db
          .select({ worker: workers, running: owned })
          .from(workers)
          .where(sql`stopped_at IS NULL`)
          .all()
          .map(({ worker, running }) => ({ ...worker, running })),
      );
    },

    /** Which of a worker's runs were asked to end or to pause. */
    loadAsked(workerId: string): Promise<{ id: string; cancelAt: number | null; pauseAt: number | null }[]> {
      return read(() => findAsked.all({ workerId }));
    },

    /**
     * Whether a drain must go on: runs that are running or can be claimed, or a quota or timer that wakes one before
     * `wakeBefore`. Runs that wait for people or are held back by others that do not run are no work.
     */
    async hasWork(wakeBefore: number): Promise<boolean> {
      const row = await read(() => findWork.get({ wakeBefore, day: `day:${dayOf(now())}` }));
      return row?.found === 1;
    },
  };
}
