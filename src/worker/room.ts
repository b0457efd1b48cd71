import { DatabaseError, messageOf } from "../errors.ts";
import { untilRoom } from "../full-disk.ts";
import type { Breaks, Work } from "./execute-run.ts";

interface Waiting extends Pick<Breaks, "leaving"> {
  resources: Pick<Work["resources"], "logger">;
  row: Pick<Work["row"], "id">;
}

/**
 * Waits where the disk is full, as the store does: no run ends for that, and one that is to end waits for its products. Only
 * until the worker goes or has lost its lease: from then on the workspace may be another's.
 */
export function withRoom<T>({ resources, row, leaving }: Waiting, work: () => Promise<T>): Promise<T> {
  const { logger } = resources;
  const onFull = (error: unknown) => logger.info("disk.full", { run: row.id, error: messageOf(error) });
  return untilRoom(work, { signal: leaving, onFull });
}

interface StoreRoom extends Pick<Work["resources"], "store" | "logger" | "paths"> {
  /** Aborted when the worker is to stop. */
  stop: AbortSignal;
  /** So long it waits then. */
  graceMs: number;
}

/**
 * The store waits for room. Nobody may ever make any: a worker that stops leaves what it cannot store to the next one, as if
 * it had been killed.
 */
export function waitForRoom({ store, logger, paths, stop, graceMs }: StoreRoom): void {
  const going = new AbortController();
  const left = new DatabaseError(
    `expected room on the disk of ${paths.database} to record the end of this worker, got none: make room, and the next worker takes over its runs at their last checkpoint`,
  );
  stop.addEventListener("abort", () => void setTimeout(() => going.abort(left), graceMs).unref());
  store.waitForRoom({
    signal: going.signal,
    onFull: () => logger.info("disk.full", { database: paths.database }),
  });
}
