import { and, eq, gt, isNull, sql } from "drizzle-orm";
import { crashLoopError } from "../outcome.ts";
import { backupAdopter } from "./backup.ts";
import { cancelRun } from "./cancel.ts";
import { type RunRow, strikesUntilEnd } from "./claim.ts";
import { forEachRun, type OnRowFailure, pageSize } from "./each-row.ts";
import { recordEvent } from "./events.ts";
import { laneVerbs } from "./lanes.ts";
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
  const { sqlite, db, read, write, now, newId } = context;
  const record = recordEvent(context);
  const cancel = cancelRun(context);
  const adoptBackup = backupAdopter(context);

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

  /** Runs that are running for nobody: their owner has stopped or was removed. */
  const findLost = sqlite.prepare<{ afterId: string }, { id: string }>(`
    SELECT id FROM runs WHERE status = 'running' AND +id > @afterId
      AND NOT EXISTS (SELECT 1 FROM workers WHERE workers.id = owner_id AND stopped_at IS NULL)
    ORDER BY +id LIMIT ${pageSize}`);
  const findOwner = db
    .select({ run: runs, stoppedAt: workers.stoppedAt, why: workers.detail })
    .from(runs)
    .leftJoin(workers, eq(workers.id, runs.ownerId))
    .where(and(eq(runs.id, sql.placeholder("id")), sql`status = 'running'`))
    .prepare();

  function takeOver(run: RunRow, why: string) {
    const progress = hasProgress(run);
    const strikes = progress ? 0 : why === "stopped" ? run.strikes : run.strikes + 1;
    record({
      kind: "owner_lost",
      runId: run.id,
      workerId: run.ownerId ?? undefined,
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

  /** Gives the runs of workers that were removed to others; gives how many. */
  function takeOverLost(onFailure?: OnRowFailure): Promise<number> {
    return forEachRun({
      load: (afterId) => read(() => findLost.all({ afterId })),
      act: (id) =>
        write(() => {
          const found = findOwner.get({ id });
          // By now another may have taken it over, and a third may own it.
          if (!found || (found.run.ownerId !== null && found.stoppedAt === null)) return false;
          takeOver(found.run, found.why ?? "dead");
          return true;
        }),
      onFailure,
    });
  }

  return {
    /** Enters a worker with a lease of `leaseMs` and gives its id. A worker whose lease ran out enters anew. */
    registerWorker(
      identity: WorkerIdentity,
      options: { version: string; leaseMs: number; detail?: string },
    ): Promise<string> {
      return write(() => {
        adoptBackup();
        const id = newId();
        const { version, leaseMs, detail = null } = options;
        db.insert(workers)
          .values({ ...identity, id, version, detail, leaseUntil: now() + leaseMs, startedAt: now() })
          .run();
        return id;
      });
    },

    /** Extends a lease that still holds. False: it ran out (or was taken away), everything it owned is lost. */
    renewLease(workerId: string, leaseMs: number): Promise<boolean> {
      return write(() => {
        const holds = and(eq(workers.id, workerId), isNull(workers.stoppedAt), gt(workers.leaseUntil, now()));
        return (
          db
            .update(workers)
            .set({ leaseUntil: now() + leaseMs })
            .where(holds)
            .run().changes === 1
        );
      });
    },

    /** Workers that have not stopped. */
    loadWorkers(): Promise<WorkerRow[]> {
      return read(() => db.select().from(workers).where(isNull(workers.stoppedAt)).all());
    },

    /**
     * Ends a worker: because it stops, because it is proven dead, or because its lease ran out (checked here again).
     * Runs it still owned are queued for others; those that were asked to pause wait, those asked to cancel end.
     * Returns how many there were. One that fails stays as it is, for `takeOverLost`.
     */
    async removeWorker(workerId: string, why: RemovalReason): Promise<number> {
      const isRemoved = await write(() => {
        const expired = why === "lease_expired" ? sql`lease_until <= ${now()}` : undefined;
        return (
          db
            .update(workers)
            .set({ stoppedAt: now(), leaseUntil: 0, detail: why })
            .where(and(eq(workers.id, workerId), isNull(workers.stoppedAt), expired))
            .run().changes === 1
        );
      });
      return isRemoved ? takeOverLost() : 0;
    },

    takeOverLost,
  };
}
