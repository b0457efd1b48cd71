import { mkdir, stat, utimes } from "node:fs/promises";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import Database from "better-sqlite3";
import { WorkspaceError } from "../errors.ts";

/** How long somebody else's fetch may keep us waiting, when that is said, and how often we look. */
const lockTimeoutMs = 15 * 60_000;
const tellAfterMs = 2_000;
const pollMs = 25;
/** A holder gives a sign of life so often: the time of the file. Without one for so long it is stopped, or stuck. */
const beatMs = 1_000;
const silentMs = 5_000;

/** What a person should know: a lock is waited for, or its holder is silent and the work goes on without the lock. */
export type LockNotice = (event: "lock.waiting" | "lock.silent", file: string) => void;

interface LockOptions<T> {
  file: string;
  signal?: AbortSignal | undefined;
  notice?: LockNotice | undefined;
  /** What to do where the holder lives but does not go on; without it that is waited for like any other. */
  whenSilent?: (() => Promise<T>) | undefined;
}

/**
 * Runs `work` while holding the lock, alone among all processes of this machine. The lock is SQLite's lock on an empty
 * database: the kernel frees it the moment its owner dies, so there is no stale lock to be told from a live one. One whose
 * owner was stopped stays: hence the signs of life.
 */
export async function withLock<T>(options: LockOptions<T>, work: () => Promise<T>): Promise<T> {
  const { file, whenSilent } = options;
  await mkdir(path.dirname(file), { recursive: true });
  const lock = new Database(file, { timeout: 0 });
  let beat: NodeJS.Timeout | undefined;
  try {
    if ((await acquire(lock, options)) || whenSilent === undefined) {
      beat = setInterval(() => void utimes(file, new Date(), new Date()).catch(() => {}), beatMs);
      return await work();
    }
  } finally {
    clearInterval(beat);
    lock.close();
  }
  options.notice?.("lock.silent", file);
  return whenSilent();
}

/** False where the holder gives no sign of life and the caller can do without the lock. */
async function acquire<T>(lock: Database.Database, options: LockOptions<T>): Promise<boolean> {
  const { file, signal, notice, whenSilent } = options;
  const beganAt = performance.now();
  const seen = { beat: 0, at: beganAt };
  let isTold = false;
  while (!tryAcquire(lock)) {
    const now = performance.now();
    // Our own clock, and what we saw ourselves: the file's time may be of a holder of long ago.
    const beat = await stat(file).then((facts) => facts.mtimeMs);
    if (beat !== seen.beat) Object.assign(seen, { beat, at: now });
    if (whenSilent !== undefined && now - seen.at > silentMs) return false;
    if (now - beganAt > lockTimeoutMs)
      throw new WorkspaceError(`another process has held ${file} for too long`);
    if (!isTold && now - beganAt > tellAfterMs) {
      isTold = true;
      notice?.("lock.waiting", file);
    }
    await delay(pollMs * (0.5 + Math.random()), undefined, signal === undefined ? {} : { signal }).catch(
      () => {},
    );
    signal?.throwIfAborted();
  }
  return true;
}

function tryAcquire(lock: Database.Database): boolean {
  try {
    lock.exec("BEGIN EXCLUSIVE");
    return true;
  } catch (error) {
    if (error instanceof Database.SqliteError && error.code.startsWith("SQLITE_BUSY")) return false;
    throw error;
  }
}
