import { statfs } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { RunAborted } from "./abort.ts";

const pauseMs = 1000;
/** With less room than this a failure is taken for one of the disk. */
const leastRoomBytes = 64 * 1024;

export interface RoomOptions {
  /** Ends the wait where its reason leaves the run to another owner; a run that is to end waits for its products. */
  signal: AbortSignal;
  /** Told once, when the wait begins. */
  onFull?(error: unknown): void;
}

/** Does the work again, from its beginning, for as long as it fails because a disk is full: a person makes room, and nothing is lost. */
export async function untilRoom<T>(work: () => Promise<T>, { signal, onFull }: RoomOptions): Promise<T> {
  for (let isFirst = true; ; isFirst = false) {
    try {
      return await work();
    } catch (error) {
      if (!isDiskFull(error)) throw error;
      if (isFirst) onFull?.(error);
      if (signal.reason instanceof RunAborted && !signal.reason.endsRun) throw signal.reason;
      await sleep(pauseMs);
    }
  }
}

const noRoom = /ENOSPC|database or disk is full|EDQUOT|No space left on device|Disk quota exceeded/;

/** Whether this machine's disk was full; what a remote machine says of its own is another matter. */
export function isDiskFull(error: unknown): boolean {
  return error instanceof Error && saysDiskFull(error.message);
}

export function saysDiskFull(text: string): boolean {
  return text.split(/[\r\n]+/).some((line) => noRoom.test(line) && !line.startsWith("remote:"));
}

/** Whether one of these folders is on a disk with next to no room. */
export async function isWithoutRoom(folders: (string | undefined)[]): Promise<boolean> {
  for (const folder of folders) {
    const found = folder === undefined ? undefined : await statfs(folder).catch(() => undefined);
    if (found !== undefined && found.bavail * found.bsize < leastRoomBytes) return true;
  }
  return false;
}
