import type { Store } from "../db/store.ts";
import { byteSize, findLow, type LowDisk } from "../disk.ts";
import { messageOf } from "../errors.ts";
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

/**
 * Returns the function that says whether a worker may claim: full disks are left to the runs that are at work already. Where
 * there is no room it says so once, and once that there is again; meanwhile workspaces of ended runs are deleted beside it.
 */
export function watchDiskRoom(options: DiskRoomOptions & { workerId: string; signal: AbortSignal }) {
  const { store, paths, logger, minFreeBytes, workerId, signal } = options;
  const free = freeOldest(options);
  let freeing: Promise<void> | undefined;
  let wasLow = false;

  function say(low: LowDisk | null): void {
    if ((low !== null) === wasLow) return;
    wasLow = low !== null;
    logger.info(low === null ? "disk.room" : "disk.low", { ...low });
    // Not awaited: on a full disk even this waits for room.
    store.noteWorker(workerId, low && `takes nothing new: ${describe(low)}`).catch(onFailure);
  }

  function onFailure(error: unknown): void {
    logger.info("worker.upkeep_failed", { error: messageOf(error) });
  }

  return async (): Promise<boolean> => {
    if (minFreeBytes === 0) return true;
    const findLowWorkspaces = () => findLow([paths.workspaces], minFreeBytes);
    const lowWorkspaces = await findLowWorkspaces();
    // Not awaited: the deletion of a large folder must not hold up a worker that is to stop.
    if (lowWorkspaces !== null) {
      const hasRoom = async () => (await findLowWorkspaces()) === null;
      freeing ??= free(hasRoom, signal)
        .catch(onFailure)
        .finally(() => (freeing = undefined));
    }
    const low = lowWorkspaces ?? (await findLow([paths.dataDir], minFreeBytes));
    say(low);
    return low === null;
  };
}

function describe({ folder, freeBytes, minFreeBytes }: LowDisk): string {
  return `${byteSize(freeBytes)} free at ${folder}, less than ${byteSize(minFreeBytes)} (minFreeBytes)`;
}
