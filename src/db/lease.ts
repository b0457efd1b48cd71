import { Worker } from "node:worker_threads";
import { LeaseLostError } from "../errors.ts";

/** A main thread that has not come to its timers for so many leases is stuck: its worker gives the lease up. */
const stuckLeases = 4;
/** Renewals, and signs of life of the main thread, in one lease. */
const renewalsPerLease = 4;

/** A lease that is being renewed. */
export interface Lease {
  /** Aborted once the lease is lost, with a LeaseLostError; or with the error that ended the thread. */
  lost: AbortSignal;
  /** Ends the renewal, not the lease. */
  stop(): Promise<void>;
}

/** What the thread is given. */
export interface LeaseThreadData {
  file: string;
  workerId: string;
  leaseMs: number;
  renewMs: number;
  stuckMs: number;
  /** Two numbers: signs of life of the main thread, counted; 1 once the thread is to end. */
  shared: SharedArrayBuffer;
}

/**
 * Renews a worker's lease from a thread with a connection of its own, so that work that keeps the main thread busy does not
 * cost it. A main thread that is stuck loses it, and so does a process that was stopped for longer than the lease.
 */
export function keepLease(options: { file: string; workerId: string; leaseMs: number }): Lease {
  const { leaseMs, workerId } = options;
  const shared = new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT);
  const flags = new Int32Array(shared);
  const renewMs = leaseMs / renewalsPerLease;
  const workerData: LeaseThreadData = { ...options, renewMs, stuckMs: leaseMs * stuckLeases, shared };
  const lost = new AbortController();
  // Without the process's own flags: what they preload is not for this thread.
  const thread = new Worker(new URL("./lease-thread.js", import.meta.url), { workerData, execArgv: [] });
  const ended = new Promise<void>((resolve) => thread.once("exit", () => resolve()));
  thread.once("message", () => lost.abort(new LeaseLostError(`the lease of worker ${workerId} has run out`)));
  thread.once("error", (error) => lost.abort(error));
  const beat = setInterval(() => Atomics.add(flags, 0, 1), renewMs);
  beat.unref();
  thread.unref();
  return {
    lost: lost.signal,
    async stop() {
      clearInterval(beat);
      Atomics.store(flags, 1, 1);
      Atomics.notify(flags, 1);
      thread.ref();
      await ended;
    },
  };
}
