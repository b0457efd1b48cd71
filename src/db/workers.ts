import { and, eq, gt, isNull, sql } from "drizzle-orm";
import { recordEvent } from "./events.ts";
import { laneVerbs } from "./lanes.ts";
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
  const { db, write, now, newId } = context;
  const record = recordEvent(context);
  const lanes = laneVerbs(context);

  function takeOverRun(
    run: {
      id: string;
      epoch: number;
      seq: number;
      claimSeq: number;
      strikes: number;
      cancelAt: number | null;
      lane: string | null;
    },
    workerId: string,
  ) {
    const hasProgress = run.seq > run.claimSeq;
    if (run.cancelAt !== null) {
      const outcome = JSON.stringify({ result: null, error: null, changedFiles: null });
      db.update(runs)
        .set({ status: "cancelled", reason: "cancelled", ownerId: null, outcome, finishedAt: now() })
        .where(eq(runs.id, run.id))
        .run();
      lanes.leave(run.lane);
    } else {
      db.update(runs)
        .set({
          status: "queued",
          ownerId: null,
          strikes: hasProgress ? 0 : run.strikes + 1,
          generation: sql`${runs.generation} + 1`,
        })
        .where(eq(runs.id, run.id))
        .run();
    }
    record({
      kind: "owner_lost",
      runId: run.id,
      workerId,
      epoch: run.epoch,
      data: { seq: run.seq, progress: hasProgress },
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
    async loadWorkers(): Promise<WorkerRow[]> {
      return db.select().from(workers).where(isNull(workers.stoppedAt)).all();
    },

    /**
     * Ends a worker: because it stops, because it is proven dead, or because its lease ran out (checked here again).
     * Runs it still owned are queued for others; those with a cancel request end.
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
          .select({
            id: runs.id,
            epoch: runs.epoch,
            seq: runs.seq,
            claimSeq: runs.claimSeq,
            strikes: runs.strikes,
            cancelAt: runs.cancelAt,
            lane: runs.lane,
          })
          .from(runs)
          .where(and(eq(runs.ownerId, workerId), sql`status = 'running'`))
          .all();
        for (const run of owned) takeOverRun(run, workerId);
        return owned.length;
      });
    },
  };
}
