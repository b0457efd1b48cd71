import { messageOf } from "../errors.ts";
import { untilRoom } from "../full-disk.ts";
import type { Work } from "./execute-run.ts";

/** Waits where the disk is full, as the store does: no run ends for that. */
export function withRoom<T>({ resources, row, controller }: Work, work: () => Promise<T>): Promise<T> {
  const { logger } = resources;
  const onFull = (error: unknown) => logger.info("disk.full", { run: row.id, error: messageOf(error) });
  return untilRoom(work, { signal: controller.signal, onFull });
}
