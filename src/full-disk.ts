import { rmSync, writeFileSync } from "node:fs";
import { statfs } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const pauseMs = 1000;
/** With less room than this a failure is taken for one of the disk. */
const leastRoomBytes = 64 * 1024;
/** More than one commit writes at once, as a rule. */
const probeBytes = 1024 * 1024;

export interface RoomOptions {
  /** Ends the wait, with its reason: what meets a full disk then is not tried again. */
  signal: AbortSignal;
  /** Where the work writes with SQLite, whose errors do not say of every full disk that it is one. */
  folder?: string;
  /** Told once, when the wait begins. */
  onFull?(error: unknown): void;
}

/** Does the work again, from its beginning, for as long as it fails because a disk is full: a person makes room, and nothing is lost. */
export async function untilRoom<T>(work: () => Promise<T>, options: RoomOptions): Promise<T> {
  const { signal, folder, onFull } = options;
  for (let isFirst = true; ; isFirst = false) {
    try {
      return await work();
    } catch (error) {
      if (!isDiskFull(error, folder)) throw error;
      if (isFirst) onFull?.(error);
      await sleep(pauseMs, undefined, { signal }).catch(() => signal.throwIfAborted());
    }
  }
}

/** A quota. Node has no name for it, and some of its messages not even the number. */
const usedUp = os.constants.errno.EDQUOT;
const noRoom = new RegExp(
  [
    ...["ENOSPC", "database or disk is full", "EDQUOT", "No space left on device", "Disk quota exceeded"],
    `Unknown system error -${usedUp}\\b`,
  ].join("|"),
);
/**
 * SQLite calls a disk full where the system says ENOSPC. A quota that is used up is an error of writing to it, and so is a
 * disk without room for the memory that the processes share.
 */
const mayBeFull = /^SQLITE_IOERR_(WRITE|SHMSIZE)/;

/**
 * Whether this machine's disk was full; what a remote machine says of its own is another matter. `folder` is where SQLite
 * was to write: where its error leaves it open, that is tried.
 */
export function isDiskFull(error: unknown, folder?: string): boolean {
  if (!(error instanceof Error)) return false;
  if (saysDiskFull(error.message) || ("errno" in error && error.errno === -usedUp)) return true;
  const isOpen = "code" in error && mayBeFull.test(String(error.code));
  return isOpen && folder !== undefined && canNotWrite(folder);
}

export function saysDiskFull(text: string): boolean {
  return text.split(/[\r\n]+/).some((line) => noRoom.test(line) && !line.startsWith("remote:"));
}

/** Only a write tells: what is free on the disk says nothing of a quota. */
function canNotWrite(folder: string): boolean {
  const probe = path.join(folder, `.room-${process.pid}`);
  try {
    writeFileSync(probe, Buffer.alloc(probeBytes));
    return false;
  } catch (error) {
    return isDiskFull(error);
  } finally {
    rmSync(probe, { force: true });
  }
}

/** Whether one of these folders is on a disk with next to no room. */
export async function isWithoutRoom(folders: (string | undefined)[]): Promise<boolean> {
  for (const folder of folders) {
    const found = folder === undefined ? undefined : await statfs(folder).catch(() => undefined);
    if (found !== undefined && found.bavail * found.bsize < leastRoomBytes) return true;
  }
  return false;
}
