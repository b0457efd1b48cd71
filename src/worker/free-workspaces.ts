import { type EndedRun, freedKind } from "../db/freed.ts";
import { messageOf } from "../errors.ts";
import { runPaths } from "../paths.ts";
import { freeWorkspace } from "../workspace/free.ts";
import type { DiskRoomOptions } from "./disk-room.ts";

const pageSize = 100;
/** Once all have been looked at, they are not looked at again for this long. */
const restMs = 10_000;
/** One that takes longer, or whose lock is held for longer, stays. */
const freeTimeoutMs = 60_000;

/**
 * Deletes workspaces of ended runs, oldest end first, until there is room. One that has to stay is not looked at again by this
 * worker.
 */
export function freeOldest({ store, paths, logger }: DiskRoomOptions) {
  let last: EndedRun | undefined;
  let restUntil = 0;

  async function freeOne(run: EndedRun, stop: AbortSignal): Promise<void> {
    const { id, tree, headCommit } = run;
    const signal = AbortSignal.any([stop, AbortSignal.timeout(freeTimeoutMs)]);
    try {
      const freed = await freeWorkspace({ run: runPaths(paths, id), tree, headCommit, signal });
      if ("kept" in freed) return logger.debug("workspace.kept", { run: id, why: freed.kept });
      logger.info("workspace.freed", { run: id, path: freed.path });
      // Not awaited: on a full disk it waits for room, which the next one may make.
      store.addUnownedEvent(id, { kind: freedKind, data: { ...freed } }).catch((error: unknown) => {
        logger.info("worker.upkeep_failed", { error: String(error) });
      });
    } catch (error) {
      logger.info("workspace.kept", { run: id, why: messageOf(error) });
    }
  }

  return async (hasRoom: () => Promise<boolean>, signal: AbortSignal): Promise<void> => {
    if (store.now() < restUntil) return;
    for (;;) {
      const page = await store.loadEndedRuns(last, pageSize);
      for (const run of page) {
        if (signal.aborted || (await hasRoom())) return;
        last = run;
        await freeOne(run, signal);
      }
      if (page.length === 0) break;
    }
    restUntil = store.now() + restMs;
  };
}
