import { and, eq, gt, isNull, sql } from "drizzle-orm";
import { crashLoopError } from "../outcome.ts";
import { cancelRun } from "./cancel.ts";
import { type RunRow, strikesUntilEnd } from "./claim.ts";
import { recordEvent } from "./events.ts";
import { laneVerbs } from "./lanes.ts";
import { keepLease, type Lease } from "./lease.ts";
import { messages, runs, workers } from "./schema.ts";
import type { StoreContext } from "./store.ts";

/** Who a worker is, precisely enough to prove on its host that it is dead. */
export interface WorkerIdentity {
  host: string;
  bootId: string | null;
  pidNamespace: string | null;
  pid: number;
  startTicks: string | null;
}

export type WorkerRow = typeof workers.$inferSelect;

/** Why a worker is removed. Only a graceful stop is no strike for runs that it still owned. */
export type RemovalReason = "stopped" | "dead" | "lease_expired";

export function workerVerbs(context: StoreContext) {
  const { db, read, write, now, newId } = context;
  const record = recordEvent(context);
  const cancel = cancelRun(context);

  const lanes = laneVerbs(context);

  /** A step is progress; answers that recovery itself wrote are none. */
  function hasProgress(run: RunRow): boolean {
    const replies = and(
      eq(messages.runId, run.id),
      gt(messages.seq, run.claimSeq),
      eq(messages.epoch, run.epoch),
      eq(messages.kind, "reply"),
    );
    return db.select({ seq: messages.seq }).from(messages).where(replies).limit(1).get() !== undefined;
  }

  function takeOver(run: RunRow, options: { workerId: string; why: RemovalReason }) {
    const { workerId, why } = options;
    const progress = hasProgress(run);
    const strikes = progress ? 0 : why === "stopped" ? run.strikes : run.strikes + 1;
    record({
      kind: "owner_lost",
      runId: run.id,
      workerId,
      epoch: run.epoch,
      data: { why, seq: run.seq, progress, strikes },
    });
    // One that has begun is claimed once more, only to be ended: with its commands, and with the products of what was done.
    const hasBegun = run.promptHash !== null;
    if (strikes > strikesUntilEnd || (strikes === strikesUntilEnd && !hasBegun)) {
      return endCrashLoop(run, strikes);
    }
    const isPaused = run.pauseAt !== null;
    db.update(runs)
      .set({
        status: isPaused ? "waiting" : "queued",
        waitKind: isPaused ? "paused" : null,
        pauseAt: null,
        ownerId: null,
        strikes,
        generation: sql`${runs.generation} + 1`,
      })
      .where(eq(runs.id, run.id))
      .run();
    if (run.cancelAt !== null) cancel(run);
  }

  function endCrashLoop(run: RunRow, strikes: number) {
    const outcome = JSON.stringify({ result: null, error: crashLoopError, changedFiles: null });
    db.update(runs)
      .set({ status: "failed", reason: "crash_loop", strikes, ownerId: null, outcome, finishedAt: now() })
      .where(eq(runs.id, run.id))
      .run();
    lanes.leave(run.lane);
    record({
      kind: "finished",
      runId: run.id,
      batchId: run.batchId,
      data: { status: "failed", reason: "crash_loop" },
    });
  }

  return {
    /** Enters a worker with a lease of `leaseMs` and gives its id. A worker whose lease ran out enters anew. */
    registerWorker(
      identity: WorkerIdentity,
      options: { version: string; leaseMs: number; detail?: string },
    ): Promise<string> {
      return write(() => {
        const id = newId();
        const { version, leaseMs, detail = null } = options;
        db.insert(workers)
          .values({ ...identity, id, version, detail, leaseUntil: now() + leaseMs, startedAt: now() })
          .run();
        return id;
      });
    },

    /** Renews a worker's lease from now on, whatever this thread is busy with. */
    keepLease(workerId: string, leaseMs: number): Lease {
      return keepLease({ file: context.sqlite.name, workerId, leaseMs });
    },

    /** Workers that have not stopped. */
    loadWorkers(): Promise<WorkerRow[]> {
      return read(() => db.select().from(workers).where(isNull(workers.stoppedAt)).all());
    },

    /**
     * Ends a worker: because it stops, because it is proven dead, or because its lease ran out (checked here again).
     * Runs it still owned are queued for others; those that were asked to pause wait, those asked to cancel end.
     * Returns how many there were.
     */
    removeWorker(workerId: string, why: RemovalReason): Promise<number> {
      return write(() => {
        const expired = why === "lease_expired" ? sql`lease_until <= ${now()}` : undefined;
        const removed = db
          .update(workers)
          .set({ stoppedAt: now(), leaseUntil: 0, detail: why })
          .where(and(eq(workers.id, workerId), isNull(workers.stoppedAt), expired))
          .run();
        if (removed.changes === 0) return 0;
        const owned = db
          .select()
          .from(runs)
          .where(and(eq(runs.ownerId, workerId), sql`status = 'running'`))
          .all();
        for (const run of owned) takeOver(run, { workerId, why });
        return owned.length;
      });
    },
  };
}
