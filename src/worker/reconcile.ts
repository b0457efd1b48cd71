import type { Store } from "../db/store.ts";
import type { WorkerIdentity } from "../db/workers.ts";
import { messageOf } from "../errors.ts";
import { failpoint } from "../failpoint.ts";
import type { Logger } from "../log.ts";
import type { Queue } from "../queue/queue.ts";
import { isProvenDead } from "./identity.ts";

/** Gives the runs of workers that are dead, or whose lease has run out, back to the queue; returns how many there were. */
export async function removeDeadWorkers(options: {
  store: Store;
  logger: Logger;
  self: WorkerIdentity;
  ownId: string;
}): Promise<number> {
  const { store, logger, self, ownId } = options;
  let taken = 0;
  for (const worker of await store.loadWorkers()) {
    if (worker.id === ownId) continue;
    const isExpired = worker.leaseUntil <= store.now();
    const isDead = isProvenDead(worker, self);
    if (!isDead && !isExpired) continue;
    const runs = await store.removeWorker(worker.id, isDead ? "dead" : "lease_expired");
    failpoint("takeover.committed");
    logger.info("worker.removed", { worker: worker.id, why: isDead ? "dead" : "lease_expired", runs });
    taken += runs;
  }
  return taken;
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
