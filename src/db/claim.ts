import { and, eq, sql } from "drizzle-orm";
import { dayOf } from "../limits/budget.ts";
import { blobWriter } from "./blobs.ts";
import { heldByBudget } from "./budgets.ts";
import { recordEvent } from "./events.ts";
import { isOwned, lostLease } from "./fence.ts";
import { progressCheck } from "./progress.ts";
import { batches, modelCalls, runs } from "./schema.ts";
import { snapshotInsert } from "./snapshots.ts";
import type { StoreContext } from "./store.ts";

/** The right to write for a run: valid while `epoch` is the run's newest and the worker's lease holds. */
export interface Claim {
  runId: string;
  workerId: string;
  epoch: number;
}

export type RunRow = typeof runs.$inferSelect;

/** What the first owner fixes for the whole run. */
export interface Beginning {
  /** System prompt and tool schemas, stored once for all runs that share them. */
  prompt: string;
  spec: string;
  model: string;
  baseCommit: string | null;
  baseTree: string | null;
}

/**
 * A run that this many workers died with, without a step of progress, is suspected of killing them: it is claimed only by
 * a worker that has nothing else to lose, after all others.
 */
export const strikesUntilSuspect = 2;
/** Deaths without progress that end a run; the last of them while it was alone in its worker. */
export const strikesUntilEnd = strikesUntilSuspect + 1;

/**
 * The run that goes next: the most urgent, batches in turn among equals. Skips from batch to batch through the index
 * runs_ready: one look-up a batch, however much is queued.
 */
export const nextRunQuery = `
  WITH RECURSIVE ready(batch) AS (
    SELECT min(batch_id) FROM runs WHERE status = 'queued' AND ready = 1
    UNION ALL
    SELECT (SELECT min(batch_id) FROM runs WHERE status = 'queued' AND ready = 1 AND batch_id > ready.batch)
    FROM ready WHERE ready.batch IS NOT NULL)
  SELECT head.id AS runId
  FROM ready JOIN batches ON batches.id = ready.batch
  JOIN runs AS head ON head.id = (
    SELECT id FROM runs WHERE batch_id = ready.batch AND status = 'queued' AND ready = 1 AND strikes < ${strikesUntilSuspect}
      AND NOT ${heldByBudget}
    ORDER BY priority DESC, id LIMIT 1)
  WHERE batches.paused_at IS NULL AND (batches.max_running IS NULL OR batches.max_running > (
    SELECT count(*) FROM runs WHERE batch_id = batches.id AND status = 'running' AND superseded = 0))
  ORDER BY head.priority DESC, batches.last_claim_at, head.id LIMIT 1`;

const suspectQuery = `
  SELECT runs.id AS runId FROM runs JOIN batches ON batches.id = runs.batch_id
  WHERE status = 'queued' AND ready = 1 AND strikes >= ${strikesUntilSuspect} AND batches.paused_at IS NULL
    AND NOT ${heldByBudget}
  ORDER BY priority DESC, runs.id LIMIT 1`;

/** Which run a worker wants. */
export interface ClaimWish {
  /** This run or none. */
  runId?: string | undefined;
  /** The worker has no other run: it may be given one that is suspected of killing its workers. */
  isAlone?: boolean;
}

export function claimVerbs(context: StoreContext) {
  const { sqlite, read, write, now } = context;
  const record = recordEvent(context);
  const saveBlob = blobWriter(context);
  const findNext = sqlite.prepare<{ day: string }, { runId: string }>(nextRunQuery);
  const findSuspect = sqlite.prepare<{ day: string }, { runId: string }>(suspectQuery);
  function choose(isAlone: boolean) {
    const today = { day: `day:${dayOf(now())}` };
    return findNext.get(today) ?? (isAlone ? findSuspect.get(today) : undefined);
  }
  const statements = prepareStatements(context);
  const madeProgress = progressCheck(context);

  return {
    /** Takes the run that goes next. Undefined when there is none, or when the worker has no lease. */
    async claim(workerId: string, { runId, isAlone = false }: ClaimWish = {}): Promise<RunRow | undefined> {
      // A look without the write lock first: idle workers ask often.
      if (runId === undefined && !(await read(() => choose(isAlone)))) return undefined;
      return write(() => {
        const next = runId ?? choose(isAlone)?.runId;
        if (next === undefined) return undefined;
        const row = statements.take.get({ runId: next, workerId, now: now() });
        if (!row) return undefined;
        statements.noteBatch.run({ id: row.batchId, now: now() });
        const lost = statements.loseModelCall.get({ runId: row.id, now: now() });
        if (lost) statements.chargeLost.run({ runId: row.id, ...lost });
        record({
          kind: "claimed",
          runId: row.id,
          workerId,
          epoch: row.epoch,
          data: { seq: row.seq, steps: row.steps },
        });
        return row;
      });
    },

    /** Whether the run has made a step since it was claimed: then nobody suspects it any more. */
    hasProgress(run: Pick<RunRow, "id" | "epoch" | "claimSeq">): Promise<boolean> {
      return read(() => madeProgress(run));
    },

    /** Records what the first owner fixed: prompt, model, base. The first messages are appended after it. Gives the prompt's hash. */
    begin(claim: Claim, beginning: Beginning): Promise<string> {
      return write(() => {
        const promptHash = saveBlob(beginning.prompt);
        const { spec, model, baseCommit, baseTree: tree } = beginning;
        const facts = { promptHash, spec, model, baseCommit, tree };
        const { changes } = statements.begin.run({ ...claim, ...facts, now: now() });
        if (changes === 0) throw lostLease(claim);
        if (tree) statements.insertSnapshot.run({ runId: claim.runId, seq: 0, tree, at: now() });
        return promptHash;
      });
    },
  };
}

function prepareStatements({ db }: StoreContext) {
  const { placeholder } = sql;
  return {
    take: db
      .update(runs)
      .set({
        status: "running",
        epoch: sql`${runs.epoch} + 1`,
        ownerId: sql`${placeholder("workerId")}`,
        claimSeq: sql`${runs.seq}`,
        startedAt: sql`coalesce(${runs.startedAt}, ${placeholder("now")})`,
      })
      .where(
        and(
          eq(runs.id, placeholder("runId")),
          sql`status = 'queued' AND ready = 1`,
          sql`EXISTS (SELECT 1 FROM workers WHERE id = ${placeholder("workerId")} AND lease_until > ${placeholder("now")} AND stopped_at IS NULL)`,
        ),
      )
      .returning()
      .prepare(),
    // Above all others, even within one millisecond: otherwise the oldest batch would have every turn of it.
    noteBatch: db
      .update(batches)
      .set({
        lastClaimAt: sql`max(${placeholder("now")}, 1 + (SELECT max(last_claim_at) FROM batches))`,
      })
      .where(eq(batches.id, placeholder("id")))
      .prepare(),
    // At most one request of a run is open at a time, so only the newest can have been left open by a dead owner.
    loseModelCall: db
      .update(modelCalls)
      .set({ state: "lost", endedAt: sql`${placeholder("now")}`, costMicro: modelCalls.reservedMicro })
      .where(
        and(
          eq(modelCalls.runId, placeholder("runId")),
          sql`n = (SELECT max(n) FROM model_calls WHERE run_id = ${placeholder("runId")})`,
          sql`state = 'sent'`,
        ),
      )
      .returning({ reservedMicro: modelCalls.reservedMicro, reservedTokens: modelCalls.reservedTokens })
      .prepare(),
    // It may have been answered and billed: what was set aside for it counts as used, as it does in the budgets.
    chargeLost: db
      .update(runs)
      .set({
        costMicro: sql`${runs.costMicro} + coalesce(${placeholder("reservedMicro")}, 0)`,
        unpricedCalls: sql`${runs.unpricedCalls} + (${placeholder("reservedMicro")} IS NULL)`,
        uncountedTokens: sql`${runs.uncountedTokens} + coalesce(${placeholder("reservedTokens")}, 0)`,
      })
      .where(eq(runs.id, placeholder("runId")))
      .prepare(),
    begin: db
      .update(runs)
      .set({
        promptHash: sql`${placeholder("promptHash")}`,
        spec: sql`${placeholder("spec")}`,
        model: sql`${placeholder("model")}`,
        baseCommit: sql`${placeholder("baseCommit")}`,
        tree: sql`${placeholder("tree")}`,
      })
      .where(isOwned())
      .prepare(),
    insertSnapshot: snapshotInsert({ db }),
  };
}
