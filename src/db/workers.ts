import { and, eq, isNull, sql } from "drizzle-orm";
import { crashLoopError } from "../outcome.ts";
import { backupAdopter } from "./backup.ts";
import { cancelRun } from "./cancel.ts";
import { type RunRow, strikesUntilEnd } from "./claim.ts";
import { forEachRun, type OnRowFailure, pageSize } from "./each-row.ts";
import { recordEvent } from "./events.ts";
import { laneVerbs } from "./lanes.ts";
import { keepLease, type Lease } from "./lease.ts";
import { progressCheck } from "./progress.ts";
import { runs, workers } from "./schema.ts";
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

/** Whether the removal of their worker is held against the runs that it still owned, by its reason. */
const strikeByReason = {
  /** In order. */
  stopped: false,
  dead: true,
  /** With the whole machine. */
  rebooted: false,
  /** Its lease ran out while the process was there: it was stopped, or the machine slept. */
  paused: false,
  /** Its lease ran out, and nobody can see whether it lives. */
  lease_expired: true,
  /** It gave its lease up because its main thread did not go on. */
  stuck: true,
};
export type RemovalReason = keyof typeof strikeByReason;

function isRemovalReason(text: string | null): text is RemovalReason {
  return text !== null && Object.hasOwn(strikeByReason, text);
}

export interface TakeOverOptions {
  onFailure?: OnRowFailure | undefined;
  /** Whether a command of the run lives on without the worker: then its loss is not held against the run. */
  isBusy?: ((runId: string) => Promise<boolean>) | undefined;
}

export function workerVerbs(context: StoreContext) {
  const { sqlite, db, read, write, now, newId } = context;
  const record = recordEvent(context);
  const cancel = cancelRun(context);
  const adoptBackup = backupAdopter(context);

  const lanes = laneVerbs(context);
  const hasProgress = progressCheck(context);

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

  function takeOver(run: RunRow, { why, isBusy }: { why: RemovalReason; isBusy: boolean }) {
    const progress = hasProgress(run);
    const strikes = progress ? 0 : run.strikes + (strikeByReason[why] && !isBusy ? 1 : 0);
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
  function takeOverLost({ onFailure, isBusy = async () => false }: TakeOverOptions = {}): Promise<number> {
    return forEachRun({
      load: (afterId) => read(() => findLost.all({ afterId })),
      act: async (id) => {
        const wasBusy = await isBusy(id);
        return write(() => {
          const found = findOwner.get({ id });
          // By now another may have taken it over, and a third may own it.
          if (!found || (found.run.ownerId !== null && found.stoppedAt === null)) return false;
          const why = isRemovalReason(found.why) ? found.why : "dead";
          takeOver(found.run, { why, isBusy: wasBusy });
          return true;
        });
      },
      onFailure,
    });
  }

  return {
    /** Enters a worker with a lease of `leaseMs` and gives its id. A worker whose lease ran out enters anew. */
    registerWorker(identity: WorkerIdentity, options: { version: string; leaseMs: number }): Promise<string> {
      return write(() => {
        adoptBackup();
        const id = newId();
        const { version, leaseMs } = options;
        db.insert(workers)
          .values({ ...identity, id, version, leaseUntil: now() + leaseMs, startedAt: now() })
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
     * Runs it still owned are queued for others; those that were asked to pause wait, those asked to cancel end. Returns
     * how many runs there were. One that fails stays as it is, for `takeOverLost`.
     */
    async removeWorker(
      workerId: string,
      reason: RemovalReason,
      isBusy?: TakeOverOptions["isBusy"],
    ): Promise<number> {
      const isRemoved = await write(() => {
        const mustExpire = reason === "lease_expired" || reason === "paused";
        const expired = mustExpire ? sql`lease_until <= ${now()}` : undefined;
        const here = and(eq(workers.id, workerId), isNull(workers.stoppedAt), expired);
        const worker = db.select().from(workers).where(here).get();
        if (!worker) return false;
        // Whoever finds it, and also when it comes to itself.
        const why = worker.detail === "stuck" && reason !== "dead" ? "stuck" : reason;
        db.update(workers).set({ stoppedAt: now(), leaseUntil: 0, detail: why }).where(here).run();
        return true;
      });
      return isRemoved ? takeOverLost({ isBusy }) : 0;
    },

    takeOverLost,
  };
}
