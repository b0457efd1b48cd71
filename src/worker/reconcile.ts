import type { Store } from "../db/store.ts";
import type { RemovalReason, WorkerIdentity } from "../db/workers.ts";
import type { Environment } from "../environment/environment.ts";
import { messageOf } from "../errors.ts";
import { failpoint } from "../failpoint.ts";
import type { Logger } from "../log.ts";
import { type DataPaths, runPaths } from "../paths.ts";
import type { Queue } from "../queue/queue.ts";
import { fateOf } from "./identity.ts";

/** What it takes to remove a worker. */
interface Removal {
  store: Store;
  paths: DataPaths;
  environment: Environment;
}

/** Gives the runs of workers that are dead, or whose lease has run out, back to the queue; returns how many there were. */
export async function removeDeadWorkers(
  options: Removal & { logger: Logger; self: WorkerIdentity; ownId: string },
): Promise<number> {
  const { store, logger, self, ownId } = options;
  let taken = 0;
  for (const worker of await store.loadWorkers()) {
    if (worker.id === ownId) continue;
    const fate = fateOf(worker, self);
    const isDead = fate === "dead" || fate === "rebooted";
    if (!isDead && worker.leaseUntil > store.now()) continue;
    const why = isDead ? fate : fate === "alive" ? "paused" : "lease_expired";
    const runs = await removeWorker(options, worker.id, why);
    failpoint("takeover.committed");
    logger.info("worker.removed", { worker: worker.id, why, runs });
    taken += runs;
  }
  return taken;
}

/**
 * Ends a worker and gives its runs back to the queue; returns how many there were. A command that lives on under its
 * supervisor is no reason to suspect its run: it did not take the worker along, and its own time limit ends it.
 */
export async function removeWorker(
  { store, paths, environment }: Removal,
  workerId: string,
  why: RemovalReason,
): Promise<number> {
  const busy: string[] = [];
  for (const id of await store.loadOwned(workerId)) {
    if (await environment.hasRunning(runPaths(paths, id).calls)) busy.push(id);
  }
  return store.removeWorker(workerId, why, busy);
}

/** Tells the queue of every queued run it has not been told of. A failure is left for the next round. */
export async function publishHints(options: { store: Store; queue: Queue; logger: Logger }): Promise<void> {
  const { store, queue, logger } = options;
  try {
    // Each page is marked, so the next one is another; an empty one is the end.
    for (let hints = await store.loadUnpublished(); hints.length > 0; hints = await store.loadUnpublished()) {
      await queue.publish(hints);
      await store.markPublished(hints);
    }
  } catch (error) {
    logger.info("queue.unavailable", { error: messageOf(error) });
  }
}
