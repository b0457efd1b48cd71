import { type OnRowFailure, pageSize } from "../db/each-row.ts";
import type { Store } from "../db/store.ts";
import type { RemovalReason, WorkerIdentity } from "../db/workers.ts";
import type { Environment } from "../environment/environment.ts";
import { messageOf } from "../errors.ts";
import { failpoint } from "../failpoint.ts";
import type { Logger } from "../log.ts";
import { type DataPaths, runPaths } from "../paths.ts";
import type { Hint, Queue } from "../queue/queue.ts";
import { fateOf } from "./identity.ts";

/** From the begin of one pass to the next, whichever workers do them, and how long the part of it that asks the queue may take. */
const reconcileMs = 30_000;
/** Hints that one pass looks at for some that nobody needs. */
const maxHintsRead = 50_000;
/** Pages of hints that may fail in one pass: one bad row holds up no other, an outage is not tried for ever. */
const maxFailedPages = 3;

/** What it takes to remove a worker. */
interface Removal {
  store: Store;
  paths: DataPaths;
  environment: Pick<Environment, "hasRunning">;
}

export interface ReconcileOptions extends Removal {
  queue: Queue;
  logger: Logger;
  self: WorkerIdentity;
  ownId: string;
  /** Ends a pass early. */
  signal: AbortSignal;
}

/**
 * The net under everything that could have been missed: whatever state the rows and the queue are in, this takes each run
 * that can go on to where a worker finds it. One worker at a time does it; one row, or one part, that fails stops no other.
 * Resolves at once unless a pass is due; never rejects.
 */
export async function reconcile(options: ReconcileOptions): Promise<void> {
  const { store, logger, ownId } = options;
  const parts: [string, (onFailure: OnRowFailure) => Promise<unknown>][] = [
    ["owners", (onFailure) => takeOverDead(options, onFailure)],
    ["timers", store.wakeDue],
    ["cancels", store.endCancelled],
    ["queue", () => reconcileQueue(options)],
  ];
  try {
    if (!(await store.claimReconcile(ownId, reconcileMs))) return;
    for (const [part, work] of parts) await reconcilePart({ part, work, logger });
  } catch (error) {
    logger.info("reconcile.failed", { error: messageOf(error) });
  }
}

async function reconcilePart(options: {
  part: string;
  work: (onFailure: OnRowFailure) => Promise<unknown>;
  logger: Logger;
}): Promise<void> {
  const { part, work, logger } = options;
  let failed = 0;
  const onFailure = (row: string | undefined, error: unknown) => {
    failed += 1;
    // One line a part: what fails for each row would say the same of each.
    if (failed === 1) logger.info("reconcile.failed", { part, row, error: messageOf(error) });
  };
  await work(onFailure).catch((error: unknown) => onFailure(undefined, error));
}

/** What every worker does once a second: passes on the runs of dead owners and wakes what is due. Gives how many there were. */
export async function sweep(options: Omit<ReconcileOptions, "queue" | "signal">): Promise<number> {
  return (await takeOverDead(options)) + (await options.store.wakeDue());
}

/** Gives the runs of workers that are dead, or whose lease has run out, back to the queue; returns how many there were. */
async function takeOverDead(
  options: Omit<ReconcileOptions, "queue" | "signal">,
  onFailure?: OnRowFailure,
): Promise<number> {
  const { store, logger, self, ownId } = options;
  let taken = 0;
  for (const worker of await store.loadWorkers()) {
    if (worker.id === ownId) continue;
    const fate = fateOf(worker, self);
    const isDead = fate === "dead" || fate === "rebooted";
    if (!isDead && worker.leaseUntil > store.now()) continue;
    const why = isDead ? fate : fate === "alive" ? "paused" : "lease_expired";
    try {
      const runs = await removeWorker(options, worker.id, why);
      failpoint("takeover.committed");
      logger.info("worker.removed", { worker: worker.id, why, runs });
      taken += runs;
    } catch (error) {
      onFailure?.(worker.id, error);
    }
  }
  // What was left over: whoever removed the worker was killed before it took the runs over.
  return taken + (await store.takeOverLost({ onFailure, isBusy: busyCheck(options) }));
}

/** Ends a worker and gives its runs back to the queue; returns how many there were. */
export function removeWorker(removal: Removal, workerId: string, why: RemovalReason): Promise<number> {
  return removal.store.removeWorker(workerId, why, busyCheck(removal));
}

/**
 * A command that lives on under its supervisor is no reason to suspect its run: it did not take the worker along, and its
 * own time limit ends it.
 */
function busyCheck({ paths, environment }: Removal): (runId: string) => Promise<boolean> {
  return (runId) => environment.hasRunning(runPaths(paths, runId).calls);
}

/** Tells the queue of every queued run it has not been told of. A failure is left for the next pass. */
export async function publishHints(options: { store: Store; queue: Queue; logger: Logger }): Promise<void> {
  const { store, queue, logger } = options;
  try {
    await publishPages({ store, queue, load: store.loadUnpublished, maxFailures: 1 });
  } catch (error) {
    logger.info("queue.unavailable", { error: messageOf(error) });
  }
}

/** A queue that lost what it held is told of everything again; then what it holds for nothing is taken out. */
async function reconcileQueue({ store, queue, logger, signal }: ReconcileOptions): Promise<void> {
  const over = AbortSignal.any([signal, AbortSignal.timeout(reconcileMs)]);
  try {
    const incarnation = await queue.getIncarnation();
    const known = await store.getIncarnation();
    const isLost = incarnation !== known;
    if (isLost && known !== undefined) logger.info("queue.lost");
    const load = isLost ? store.loadClaimable : store.loadUnpublished;
    await publishPages({ store, queue, load, signal: over, maxFailures: maxFailedPages });
    // Only now: what did not get through is done again.
    if (isLost && !over.aborted) await store.setIncarnation(incarnation);
    await removeStaleHints({ store, queue, signal: over });
  } catch (error) {
    // The queue itself has said what is wrong with it, once; this would say it twice a minute.
    logger.debug("queue.unavailable", { error: messageOf(error) });
  }
}

/** Rejects with the first failure, after the pages that could be published. */
async function publishPages(options: {
  store: Store;
  queue: Queue;
  load: (afterId: string) => Promise<Hint[]>;
  maxFailures: number;
  signal?: AbortSignal;
}): Promise<void> {
  const { store, queue, load, maxFailures, signal } = options;
  const failures: unknown[] = [];
  let hints = await load("");
  while (hints.length > 0 && !signal?.aborted && failures.length < maxFailures) {
    try {
      await queue.publish(hints);
      await store.markPublished(hints);
    } catch (error) {
      failures.push(error);
    }
    hints = await load(hints.at(-1)?.runId ?? "");
  }
  if (failures.length > 0) throw failures[0];
}

/** Hints are left over where workers were too busy to take them: they found the runs without. */
async function removeStaleHints(options: { store: Store; queue: Queue; signal: AbortSignal }): Promise<void> {
  const { store, queue, signal } = options;
  const hints = await queue.loadHints(maxHintsRead);
  for (let start = 0; start < hints.length && !signal.aborted; start += pageSize) {
    await queue.removeHints(await store.loadStale(hints.slice(start, start + pageSize)));
  }
}
