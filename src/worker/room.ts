import { messageOf } from "../errors.ts";
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
