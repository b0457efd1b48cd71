import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { link, open, rename, rm, stat } from "node:fs/promises";
import path from "node:path";
import Database from "better-sqlite3";
import { ConfigError, messageOf } from "../errors.ts";
import { applicationId } from "./open.ts";
import type { StoreContext } from "./store.ts";
import { retryBusy } from "./writer.ts";

/** In `meta`: when a copy was made, in epoch milliseconds, until the first worker begins with it. */
const madeKey = "backup_at";
/** Epochs that a run may have gone through elsewhere since the copy was made, at the least. */
const leastEpochsAhead = 1000;

export interface Backup {
  bytes: number;
  /** All runs in it, and those of them that have not ended. */
  runs: number;
  openRuns: number;
}

/**
 * Copies the database as it is at this moment, whoever writes to it, and checks the copy before it gets its name. Reads
 * files of older and newer pawls as well, and migrates nothing. Throws ConfigError where `to` exists or cannot be written,
 * or `from` is damaged.
 */
export async function backUpDatabase({ from, to }: { from: string; to: string }): Promise<Backup> {
  requireNew(to);
  // What is made is for this user alone, like the database's folder.
  const making = `${to}.${randomUUID()}.tmp`;
  try {
    await (await open(making, "wx", 0o600)).close();
    await copy(from, making);
    const found = check(making, from);
    await flush(making);
    await nameIt(making, to);
    await flush(path.dirname(to));
    return { ...found, bytes: (await stat(to)).size };
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    throw new ConfigError(`expected to write ${to}, got: ${messageOf(error)}`, { cause: error });
  } finally {
    for (const left of [making, `${making}-journal`]) await rm(left, { force: true });
  }
}

function requireNew(file: string): void {
  if (!existsSync(file)) return;
  throw new ConfigError(`expected the name of a new file, got ${file}, which exists: name another one`);
}

async function copy(from: string, to: string): Promise<void> {
  const source = new Database(from, { readonly: true });
  try {
    // In one read of the file: writers go on meanwhile, and nothing of what they do is in the copy.
    await retryBusy(() => source.prepare("VACUUM INTO ?").run(to));
  } catch (error) {
    if (error instanceof Database.SqliteError && /^SQLITE_(CORRUPT|NOTADB)/.test(error.code))
      throw damaged(from, error.message);
    throw error;
  } finally {
    source.close();
  }
}

/** Looks at the copy as whoever restores it will, and marks it as one. */
function check(file: string, from: string): Omit<Backup, "bytes"> {
  const sqlite = new Database(file);
  try {
    const isOurs = sqlite.pragma("application_id", { simple: true }) === applicationId;
    const verdict = sqlite.pragma("quick_check(1)", { simple: true });
    if (!isOurs || verdict !== "ok") throw damaged(from, String(verdict));
    sqlite.prepare("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)").run(madeKey, String(Date.now()));
    const count = sqlite.prepare<[], Omit<Backup, "bytes">>(
      "SELECT count(*) AS runs, count(*) FILTER (WHERE finished_at IS NULL) AS openRuns FROM runs",
    );
    return count.get() ?? { runs: 0, openRuns: 0 };
  } finally {
    sqlite.close();
  }
}

function damaged(file: string, found: string): ConfigError {
  return new ConfigError(
    `expected pawl's database at ${file}, got a file that is damaged (${found}): keep it, and work with an earlier backup`,
  );
}

/** Never over a file that somebody else has made meanwhile, as far as the disk can say so. */
async function nameIt(making: string, to: string): Promise<void> {
  try {
    await link(making, to);
  } catch (error) {
    requireNew(to);
    if (!["EPERM", "ENOTSUP", "ENOSYS"].includes(String((error as NodeJS.ErrnoException).code))) throw error;
    await rename(making, to);
  }
}

async function flush(place: string): Promise<void> {
  const handle = await open(place, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * What the first worker on a copy does: no worker of the copied ones is here, and epochs begin anew above all that may have
 * been used since. Otherwise a command would be taken for one of the same name that the original ran later, whose files may
 * be in the folder of the run.
 */
export function backupAdopter({ sqlite, now }: StoreContext): () => void {
  const takeMark = sqlite.prepare<[string], string>("DELETE FROM meta WHERE key = ? RETURNING value").pluck();
  const raise = sqlite.prepare<[number]>(
    "UPDATE runs SET epoch = epoch + ?, strikes = 0 WHERE status IN ('queued', 'running', 'waiting')",
  );
  // In order: that they are not here is no fault of their runs.
  const stop = sqlite.prepare<[number]>(
    "UPDATE workers SET stopped_at = ?, lease_until = 0, detail = 'stopped' WHERE stopped_at IS NULL",
  );
  return () => {
    const madeAt = takeMark.get(madeKey);
    if (madeAt === undefined) return;
    // A run is claimed less than once a second; a second restoration of the same copy comes later, and so begins higher.
    raise.run(Math.max(leastEpochsAhead, Math.ceil((now() - Number(madeAt)) / 1000)));
    stop.run(now());
  };
}
