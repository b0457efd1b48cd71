import { and, eq, gt, isNull, sql } from "drizzle-orm";
import { cancelRun } from "./cancel.ts";
import type { RunRow } from "./claim.ts";
import { recordEvent } from "./events.ts";
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

export function workerVerbs(context: StoreContext) {
  const { db, read, write, now, newId } = context;
  const record = recordEvent(context);
  const cancel = cancelRun(context);

  function takeOver(run: RunRow, workerId: string) {
    const hasProgress = run.seq > run.claimSeq;
    const isPaused = run.pauseAt !== null;
    db.update(runs)
      .set({
        status: isPaused ? "waiting" : "queued",
        waitKind: isPaused ? "paused" : null,
        pauseAt: null,
        ownerId: null,
        strikes: hasProgress ? 0 : run.strikes + 1,
        generation: sql`${runs.generation} + 1`,
      })
      .where(eq(runs.id, run.id))
      .run();
    record({
      kind: "owner_lost",
      runId: run.id,
      workerId,
      epoch: run.epoch,
      data: { seq: run.seq, progress: hasProgress },
    });
    if (run.cancelAt !== null) cancel(run);
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
     * Returns how many there were.
     */
    removeWorker(workerId: string, why: "stopped" | "dead" | "lease_expired"): Promise<number> {
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
        for (const run of owned) takeOver(run, workerId);
        return owned.length;
      });
    },
  };
}
