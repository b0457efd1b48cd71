import { mkdir } from "node:fs/promises";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import Database from "better-sqlite3";
import { WorkspaceError } from "../errors.ts";

/** How long somebody else's fetch may keep us waiting, and how often we look. */
const lockTimeoutMs = 15 * 60_000;
const pollMs = 25;

/**
 * Runs `work` while holding the lock at `file`, alone among all processes of this machine. The lock is SQLite's lock on
 * an empty database: the kernel frees it the moment its owner dies, so there is no stale lock to be told from a live one.
 */
export async function withLock<T>(
  file: string,
  signal: AbortSignal | undefined,
  work: () => Promise<T>,
): Promise<T> {
  await mkdir(path.dirname(file), { recursive: true });
  const lock = new Database(file, { timeout: 0 });
  try {
    await acquire(lock, file, signal);
    return await work();
  } finally {
    lock.close();
  }
}

async function acquire(
  lock: Database.Database,
  file: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const deadlineAt = Date.now() + lockTimeoutMs;
  while (!tryAcquire(lock)) {
    if (Date.now() > deadlineAt) throw new WorkspaceError(`another process has held ${file} for too long`);
    await delay(pollMs * (0.5 + Math.random()), undefined, signal === undefined ? {} : { signal }).catch(
      () => {},
    );
    signal?.throwIfAborted();
  }
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
