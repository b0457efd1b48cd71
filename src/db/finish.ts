import { and, eq, isNotNull, sql } from "drizzle-orm";
import type { Outcome, WaitKind } from "../outcome.ts";
import { cancelRun } from "./cancel.ts";
import type { Claim } from "./claim.ts";
import { recordEvent } from "./events.ts";
import { isOwned, lostLease } from "./fence.ts";
import { laneVerbs } from "./lanes.ts";
import { progressCheck } from "./progress.ts";
import { budgets, runs } from "./schema.ts";
import type { StoreContext } from "./store.ts";

/** What a run leaves behind, recorded with its end. */
export interface Ending extends Outcome {
  activeMs: number;
  tree: string | null;
  headCommit: string | null;
  branch: string | null;
  changedFiles: string[] | null;
  /** What a person should know beside it. */
  notes?: string[];
}

/** What a parked run waits for; `wakeAt` in epoch milliseconds, null for what no clock brings. */
export interface Wait {
  kind: WaitKind;
  note: string | null;
  wakeAt: number | null;
}

const pausedByRequest: Wait = { kind: "paused", note: "paused by request", wakeAt: null };

/** How an owner lets go of a run. What was asked of the run meanwhile is not lost: a cancel ends it, a pause holds it. */
export function finishVerbs(context: StoreContext) {
  const { write, now } = context;
  const record = recordEvent(context);
  const lanes = laneVerbs(context);
  const cancel = cancelRun(context);
  const hasProgress = progressCheck(context);
  const statements = prepareStatements(context);

  /** Whether the budget of the batch that the run was to wait for was raised since: who raised it woke those that waited. */
  function isRaised({ batchId }: { batchId: string }, wanted: Wait | null): boolean {
    if (wanted?.kind !== "quota" || wanted.wakeAt !== null) return false;
    return statements.findExhausted.get({ scope: `batch:${batchId}` }) === undefined;
  }

  function leave(claim: Claim, activeMs: number, wanted: Wait | null) {
    return write(() => {
      const run = statements.getOwned.get({ ...claim, now: now() });
      if (!run) throw lostLease(claim);
      // Whoever resumed a run since its owner saw the pause was told that it goes on.
      const unlessResumed = wanted?.kind === "paused" || isRaised(run, wanted) ? null : wanted;
      const wait = run.pauseAt === null ? unlessResumed : pausedByRequest;
      statements.leave.run({
        runId: claim.runId,
        status: wait ? "waiting" : "queued",
        waitKind: wait?.kind ?? null,
        waitNote: wait?.note ?? null,
        wakeAt: wait?.wakeAt ?? null,
        activeMs,
        strikes: hasProgress(run) ? 0 : run.strikes,
        hint: wait ? 0 : 1,
      });
      record({
        ...claim,
        kind: wait ? "waiting" : "released",
        data: wait ? { kind: wait.kind, note: wait.note } : undefined,
      });
      if (run.cancelAt !== null) cancel({ id: claim.runId, lane: run.lane });
    });
  }

  return {
    /** The one terminal outcome of a run. */
    finish(claim: Claim, ending: Ending): Promise<void> {
      return write(() => {
        const { result, error, changedFiles, notes = [], ...columns } = ending;
        const outcome = JSON.stringify({ result, error, changedFiles, notes });
        const row = statements.end.get({ ...claim, ...columns, now: now(), outcome });
        if (!row) throw lostLease(claim);
        lanes.leave(row.lane);
        const data = { status: ending.status, reason: ending.reason };
        record({ ...claim, batchId: row.batchId, kind: "finished", data });
      });
    },

    /** Gives the run back, to be claimed again at once by whoever is free. Neither a strike nor progress. */
    release(claim: Claim, activeMs: number): Promise<void> {
      return leave(claim, activeMs, null);
    },

    /** Parks the run until something outside wakes it. */
    wait(claim: Claim, wait: Wait, activeMs: number): Promise<void> {
      return leave(claim, activeMs, wait);
    },
  };
}

function prepareStatements({ db }: StoreContext) {
  const { placeholder } = sql;
  return {
    findExhausted: db
      .select({ scope: budgets.scope })
      .from(budgets)
      .where(and(eq(budgets.scope, placeholder("scope")), isNotNull(budgets.exhaustedAt)))
      .prepare(),
    getOwned: db.select().from(runs).where(isOwned()).prepare(),
    end: db
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
      .prepare(),
    leave: db
      .update(runs)
      .set({
        status: sql`${placeholder("status")}`,
        ownerId: null,
        waitKind: sql`${placeholder("waitKind")}`,
        waitNote: sql`${placeholder("waitNote")}`,
        wakeAt: sql`${placeholder("wakeAt")}`,
        activeMs: sql`${placeholder("activeMs")}`,
        pauseAt: null,
        strikes: sql`${placeholder("strikes")}`,
        generation: sql`${runs.generation} + ${placeholder("hint")}`,
      })
      .where(eq(runs.id, placeholder("runId")))
      .prepare(),
  };
}
