import type { Store } from "../db/store.ts";
import { type Room, roomAt } from "../disk.ts";
import type { Logger } from "../log.ts";
import type { DataPaths } from "../paths.ts";
import { freeOldest } from "./free-workspaces.ts";

export interface DiskRoomOptions {
  store: Store;
  paths: DataPaths;
  logger: Logger;
  /** Below this many free bytes nothing new is claimed; 0 turns it off, null is the default. */
  minFreeBytes: number | null;
}

/** Whether a worker may claim: full disks are left to the runs that are at work already. */
export interface DiskRoom {
  /** Deletes workspaces of ended runs, oldest first, where that is what lacks; says once that there is no room, and once that there is again. */
  isThere(signal: AbortSignal): Promise<boolean>;
}

/** What lacks, as people read it. */
function describeLow({ folder, freeBytes, minFreeBytes }: Low): string {
  const inMegabytes = (bytes: number) => `${Math.floor(bytes / 1024 ** 2)} MB`;
  return `${inMegabytes(freeBytes)} free at ${folder}, less than ${inMegabytes(minFreeBytes)} (minFreeBytes)`;
}

interface Low extends Room {
  folder: string;
}

export function watchDiskRoom(options: DiskRoomOptions & { workerId: string }): DiskRoom {
  const { store, paths, logger, minFreeBytes, workerId } = options;
  const free = freeOldest(options);
  let wasLow = false;

  async function findLow(folder: string): Promise<Low | null> {
    const room = await roomAt(folder, minFreeBytes);
    return room.freeBytes < room.minFreeBytes ? { folder, ...room } : null;
  }

  function say(low: Low | null): void {
    if ((low !== null) === wasLow) return;
    wasLow = low !== null;
    logger.info(low === null ? "disk.room" : "disk.low", { ...low });
    const detail = low === null ? null : `takes nothing new: ${describeLow(low)}`;
    // Not awaited: on a full disk even this waits for room.
    store.noteWorker(workerId, detail).catch((error: unknown) => {
      logger.info("worker.upkeep_failed", { error: String(error) });
    });
  }

  return {
    async isThere(signal) {
      if (minFreeBytes === 0) return true;
      const hasRoom = async () => (await findLow(paths.workspaces)) === null;
      // A worker that is to stop does not wait for a large folder to be deleted.
      if (!(await hasRoom())) await Promise.race([free(hasRoom, signal), untilAborted(signal)]);
      const low = (await findLow(paths.dataDir)) ?? (await findLow(paths.workspaces));
      say(low);
      return low === null;
    },
  };
}

async function untilAborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted)
    await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
}
