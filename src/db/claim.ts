import { and, eq, sql } from "drizzle-orm";
import { LeaseLostError } from "../errors.ts";
import type { Outcome, WaitKind } from "../outcome.ts";
import { blobWriter } from "./blobs.ts";
import { recordEvent } from "./events.ts";
import { laneVerbs } from "./lanes.ts";
import { batches, modelCalls, runs, snapshots } from "./schema.ts";
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

/** What a run leaves behind, recorded with its end. */
export interface Ending extends Outcome {
  activeMs: number;
  tree: string | null;
  headCommit: string | null;
  branch: string | null;
  changedFiles: string[] | null;
}

const { placeholder } = sql;

/** True for the row that the claim still owns. Every write of a run carries it. */
export function isOwned() {
  return and(
    eq(runs.id, placeholder("runId")),
    eq(runs.epoch, placeholder("epoch")),
    eq(runs.status, "running"),
    sql`EXISTS (SELECT 1 FROM workers WHERE workers.id = ${runs.ownerId} AND lease_until > ${placeholder("now")})`,
  );
}

/** Throws when a fenced update found nothing to change. */
export function requireOwned(result: { changes: number }, claim: Claim): void {
  if (result.changes === 0) {
    throw new LeaseLostError(`run ${claim.runId} is no longer owned by epoch ${claim.epoch}`);
  }
}

export function claimVerbs(context: StoreContext) {
  const { sqlite, db, write, now } = context;
  const record = recordEvent(context);
  const lanes = laneVerbs(context);
  const saveBlob = blobWriter(context);
  // Skips from batch to batch through the index runs_ready: one look-up a batch, however much is queued.
  const findHeads = sqlite.prepare<[], { runId: string }>(`
    WITH RECURSIVE ready(batch) AS (
      SELECT min(batch_id) FROM runs WHERE status = 'queued' AND ready = 1
      UNION ALL
      SELECT (SELECT min(batch_id) FROM runs WHERE status = 'queued' AND ready = 1 AND batch_id > ready.batch)
      FROM ready WHERE ready.batch IS NOT NULL)
    SELECT head.id AS runId
    FROM ready JOIN batches ON batches.id = ready.batch
    JOIN runs AS head ON head.id = (
      SELECT id FROM runs WHERE batch_id = ready.batch AND status = 'queued' AND ready = 1
      ORDER BY priority DESC, id LIMIT 1)
    WHERE batches.paused_at IS NULL AND (batches.max_running IS NULL OR batches.max_running > (
      SELECT count(*) FROM runs WHERE batch_id = batches.id AND status = 'running' AND superseded = 0))
    ORDER BY head.priority DESC, batches.last_claim_at, head.id LIMIT 1`);
  const take = db
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
        eq(runs.status, "queued"),
        sql`ready = 1`,
        sql`EXISTS (SELECT 1 FROM workers WHERE id = ${placeholder("workerId")} AND lease_until > ${placeholder("now")} AND stopped_at IS NULL)`,
      ),
    )
    .returning()
    .prepare();
  const noteBatch = db
    .update(batches)
    .set({ lastClaimAt: sql`${placeholder("now")}` })
    .where(eq(batches.id, placeholder("id")))
    .prepare();
  // At most one request of a run is open at a time, so only the newest can have been left open by a dead owner.
  const loseModelCall = db
    .update(modelCalls)
    .set({ state: "lost", endedAt: sql`${placeholder("now")}` })
    .where(
      and(
        eq(modelCalls.runId, placeholder("runId")),
        sql`n = (SELECT max(n) FROM model_calls WHERE run_id = ${placeholder("runId")})`,
        eq(modelCalls.state, "sent"),
      ),
    )
    .prepare();
  const recordBeginning = db
    .update(runs)
    .set({
      promptHash: sql`${placeholder("promptHash")}`,
      spec: sql`${placeholder("spec")}`,
      model: sql`${placeholder("model")}`,
      baseCommit: sql`${placeholder("baseCommit")}`,
      tree: sql`${placeholder("tree")}`,
    })
    .where(isOwned())
    .prepare();
  const insertSnapshot = db
    .insert(snapshots)
    .values({
      runId: placeholder("runId"),
      seq: placeholder("seq"),
      tree: placeholder("tree"),
      at: placeholder("at"),
    })
    .onConflictDoNothing()
    .prepare();
  const end = db
    .update(runs)
    .set({
      status: sql`${placeholder("status")}`,
      reason: sql`${placeholder("reason")}`,
      ownerId: null,
      activeMs: sql`${placeholder("activeMs")}`,
      tree: sql`coalesce(${placeholder("tree")}, ${runs.tree})`,
      headCommit: sql`${placeholder("headCommit")}`,
      branch: sql`${placeholder("branch")}`,
      outcome: sql`${placeholder("outcome")}`,
      finishedAt: sql`${placeholder("now")}`,
    })
    .where(isOwned())
    .returning({ lane: runs.lane, batchId: runs.batchId })
    .prepare();
  const leave = db
    .update(runs)
    .set({
      status: sql`${placeholder("status")}`,
      ownerId: null,
      waitKind: sql`${placeholder("waitKind")}`,
      waitNote: sql`${placeholder("waitNote")}`,
      wakeAt: sql`${placeholder("wakeAt")}`,
      activeMs: sql`${placeholder("activeMs")}`,
      pauseAt: null,
      strikes: 0,
      generation: sql`${runs.generation} + ${placeholder("hint")}`,
    })
    .where(isOwned())
    .prepare();

  function leaveTo(
    claim: Claim,
    target: { wait: { kind: WaitKind; note: string; wakeAt: number | null } | null; activeMs: number },
  ) {
    const { wait, activeMs } = target;
    return write(() => {
      const result = leave.run({
        ...claim,
        now: now(),
        status: wait ? "waiting" : "queued",
        waitKind: wait?.kind ?? null,
        waitNote: wait?.note ?? null,
        wakeAt: wait?.wakeAt ?? null,
        activeMs,
        hint: wait ? 0 : 1,
      });
      requireOwned(result, claim);
      record({
        ...claim,
        kind: wait ? "waiting" : "released",
        data: wait ? { kind: wait.kind, note: wait.note } : undefined,
      });
    });
  }

  return {
    /**
     * Takes the run that goes next: the most urgent, batches in turn among equals. Undefined when there is none.
     * With `runId`, that run or none.
     */
    async claim(workerId: string, runId?: string): Promise<RunRow | undefined> {
      // A look without the write lock first: idle workers ask often.
      if (runId === undefined && !findHeads.get()) return undefined;
      return write(() => {
        const next = runId ?? findHeads.get()?.runId;
        if (next === undefined) return undefined;
        const row = take.get({ runId: next, workerId, now: now() });
        if (!row) return undefined;
        noteBatch.run({ id: row.batchId, now: now() });
        loseModelCall.run({ runId: row.id, now: now() });
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

    /** Records what the first owner fixed: prompt, model, base. The first messages are appended after it. Gives the prompt's hash. */
    begin(claim: Claim, beginning: Beginning): Promise<string> {
      return write(() => {
        const promptHash = saveBlob(beginning.prompt);
        const { spec, model, baseCommit, baseTree } = beginning;
        const result = recordBeginning.run({
          ...claim,
          now: now(),
          promptHash,
          spec,
          model,
          baseCommit,
          tree: baseTree,
        });
        requireOwned(result, claim);
        if (baseTree) insertSnapshot.run({ runId: claim.runId, seq: 0, tree: baseTree, at: now() });
        return promptHash;
      });
    },

    /** The one terminal outcome of a run. */
    finish(claim: Claim, ending: Ending): Promise<void> {
      return write(() => {
        const { result, error, changedFiles, ...columns } = ending;
        const row = end.get({
          ...claim,
          ...columns,
          now: now(),
          outcome: JSON.stringify({ result, error, changedFiles }),
        });
        if (!row) requireOwned({ changes: 0 }, claim);
        lanes.leave(row?.lane ?? null);
        record({
          ...claim,
          batchId: row?.batchId,
          kind: "finished",
          data: { status: ending.status, reason: ending.reason },
        });
      });
    },

    /** Gives the run back, to be claimed again at once by whoever is free. Not a strike. */
    release(claim: Claim, activeMs: number): Promise<void> {
      return leaveTo(claim, { wait: null, activeMs });
    },

    /** Parks the run until something outside wakes it. */
    wait(
      claim: Claim,
      wait: { kind: WaitKind; note: string; wakeAt: number | null },
      activeMs: number,
    ): Promise<void> {
      return leaveTo(claim, { wait, activeMs });
    },
  };
}
