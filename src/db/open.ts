import { mkdirSync, statSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import Database from "better-sqlite3";
import { type BetterSQLite3Database, drizzle } from "drizzle-orm/better-sqlite3";
import { migrate } from "drizzle-orm/better-sqlite3/migrator";
import { readMigrationFiles } from "drizzle-orm/migrator";
import { requireLocalDisk } from "../disk.ts";
import { ConfigError, DatabaseError } from "../errors.ts";
import { isDiskFull } from "../full-disk.ts";
import { sqliteErrorOf } from "./sqlite-error.ts";
import { retryBusy } from "./writer.ts";

const migrationsFolder = fileURLToPath(new URL("../../migrations", import.meta.url));
/** Below this, two connections in WAL mode can corrupt the file (the WAL-reset bug, fixed in 3.51.3). */
const oldestSafeSqlite = "3.51.3";
/** SQLite itself waits this long for a lock; longer waits are asynchronous, so that they never freeze the process. */
const busyTimeoutMs = 5;
/** The write-ahead log grows to 16 MB before it is folded into the file: pages of 4 kB. */
const checkpointPages = 4000;
const cacheKilobytes = 16_000;
/** Marks a file as pawl's, in the place that SQLite has for it: the letters `pawl`. */
export const applicationId = 0x7061776c;

/** The connection and drizzle's view of it. */
export interface Connection {
  sqlite: Database.Database;
  db: BetterSQLite3Database;
  /** Stamp of the newest migration that this pawl knows. */
  newestMigration: number;
  /** Throws DatabaseError where the file was deleted or moved away: what is written to it then is lost. */
  requireInPlace(): void;
}

/** Gives the stamp of the newest migration applied to a file. */
export const appliedMigrationQuery = "SELECT max(created_at) FROM __drizzle_migrations";

/**
 * Opens the database file, creating and migrating it as needed.
 * Throws ConfigError for a file that is not pawl's, is damaged, was written by a newer pawl, or lies on a network file system
 * or where WAL does not work.
 */
export async function openConnection(file: string): Promise<Connection> {
  await requireLocalDisk(path.dirname(file));
  mkdirSync(path.dirname(file), { recursive: true });
  let sqlite: Database.Database | undefined;
  try {
    sqlite = new Database(file, { timeout: busyTimeoutMs });
    requireSafeVersion(await versionOf(sqlite));
    const latest = newestMigration();
    if ((await appliedMigration(sqlite, file)) !== latest) await initialise(sqlite, file, latest);
    await setPragmas(sqlite, file);
    return { sqlite, db: drizzle(sqlite), newestMigration: latest, requireInPlace: placeCheck(file) };
  } catch (error) {
    sqlite?.close();
    throw explainDatabase(error, file);
  }
}

function placeCheck(file: string): () => void {
  const identify = () => {
    const found = statSync(file, { throwIfNoEntry: false });
    return found && `${found.dev} ${found.ino}`;
  };
  const opened = identify();
  return () => {
    if (identify() === opened) return;
    throw new DatabaseError(
      `expected pawl's database to stay at ${file}, but it was deleted, moved or replaced while a worker ran: bring it back, and start the worker again`,
    );
  };
}

/** Even this statement reads the schema, so it can meet a lock. */
async function versionOf(sqlite: Database.Database): Promise<string> {
  const row = await retryBusy(() =>
    sqlite.prepare<[], { version: string }>("SELECT sqlite_version() AS version").get(),
  );
  return row?.version ?? "unknown";
}

export function requireSafeVersion(version: string): void {
  const isOld = version.localeCompare(oldestSafeSqlite, "en", { numeric: true }) < 0;
  if (isOld || version === "unknown") {
    throw new ConfigError(
      `expected SQLite ${oldestSafeSqlite} or newer (older ones can corrupt a file that several processes use), ` +
        `got ${version}: reinstall better-sqlite3`,
    );
  }
}

export function newestMigration(): number {
  return readMigrationFiles({ migrationsFolder }).at(-1)?.folderMillis ?? 0;
}

/** Stamp of the newest migration applied to this file; 0 for an empty file. */
export function appliedMigration(sqlite: Database.Database, file: string): Promise<number> {
  return retryBusy(() => {
    const tables = sqlite
      .prepare<[], { name: string }>("SELECT name FROM sqlite_master WHERE type = 'table'")
      .all();
    if (tables.length === 0) return 0;
    if (sqlite.pragma("application_id", { simple: true }) !== applicationId) {
      throw notOurs(file, "holds another program's tables");
    }
    return sqlite.prepare<[], number | null>(appliedMigrationQuery).pluck().get() ?? 0;
  });
}

function notOurs(file: string, found: string, cause?: unknown): DatabaseError {
  return new DatabaseError(
    `expected pawl's database at ${file}, but the file ${found}: restore it from a backup, move it away, or set PAWL_HOME to another folder`,
    { cause },
  );
}

/** Under a lock of its own, since processes that start together would race for WAL mode and for the migrations. */
async function initialise(sqlite: Database.Database, file: string, latest: number): Promise<void> {
  const lock = new Database(`${file}-lock`, { timeout: busyTimeoutMs });
  try {
    await retryBusy(() => lock.exec("BEGIN EXCLUSIVE"));
    const applied = await appliedMigration(sqlite, file);
    if (applied > latest) {
      throw new ConfigError(
        `expected a database of this pawl or an older one, got one written by a newer pawl at ${file}: update pawl`,
      );
    }
    // Before the first table, so that the mark is never missing beside tables.
    if (applied === 0) await retryBusy(() => sqlite.pragma(`application_id = ${applicationId}`));
    await setPragmas(sqlite, file);
    await retryBusy(() => migrate(drizzle(sqlite), { migrationsFolder }));
  } finally {
    lock.close();
  }
}

/** What every connection sets. Throws ConfigError where write-ahead logging does not work. */
export async function setPragmas(sqlite: Database.Database, file: string): Promise<void> {
  const mode = await retryBusy(() => sqlite.pragma("journal_mode = WAL", { simple: true }));
  if (mode !== "wal") {
    throw new ConfigError(
      `expected write-ahead logging to work at ${file}, got journal mode ${String(mode)}: keep the data directory on a local disk (set PAWL_HOME)`,
    );
  }
  // better-sqlite3 is built with NORMAL for WAL, which may lose the last commits on power loss.
  await retryBusy(() => sqlite.pragma("synchronous = FULL"));
  sqlite.pragma("foreign_keys = ON");
  // Many runs write at once, each to its own pages of the indexes: they are written back less often, the same ones together.
  sqlite.pragma(`wal_autocheckpoint = ${checkpointPages}`);
  sqlite.pragma(`cache_size = -${cacheKilobytes}`);
  // What a savepoint may have to undo.
  sqlite.pragma("temp_store = MEMORY");
}

/** Errors of a statement, not of the file: it breaks a rule of the tables, or was written wrong. */
const ofStatement = /^SQLITE_(CONSTRAINT|ERROR|MISUSE|RANGE|TOOBIG|MISMATCH)/;

/**
 * What SQLite says of a file that cannot be used, as a person needs it. Damage shows wherever it is read, long after opening,
 * so the errors of every verb pass through here; all that are not a statement's own become a DatabaseError.
 */
export function explainDatabase(thrown: unknown, file: string): unknown {
  const error = sqliteErrorOf(thrown);
  if (error === null || ofStatement.test(error.code)) return thrown;
  if (error.code === "SQLITE_NOTADB") return notOurs(file, "is not a SQLite file", error);
  return new DatabaseError(`expected ${describeFault(error, file)}`, { cause: error });
}

/** What was expected, what was got, and what to do. */
function describeFault(error: NonNullable<ReturnType<typeof sqliteErrorOf>>, file: string): string {
  const { code, message } = error;
  if (code.startsWith("SQLITE_CORRUPT")) {
    return `pawl's database at ${file}, but the file is damaged: stop all workers, keep a copy of it (with its -wal), then restore it from a backup, or put in its place what \`sqlite3 ${file} .recover | sqlite3 recovered.db\` can still read`;
  }
  if (isDiskFull(error, path.dirname(file))) {
    return `room on the disk of ${file}, got "database or disk is full", so nothing was stored: make room and try again`;
  }
  if (code.startsWith("SQLITE_IOERR_SHM")) {
    return `a disk on which processes can share memory, got ${code} at ${file}: set PAWL_HOME to a folder on a disk of this machine`;
  }
  if (/^SQLITE_(CANTOPEN|READONLY|PERM|AUTH)/.test(code)) {
    return `to read and write ${file}, got ${code}: check that this user may write the file and its folder`;
  }
  return `to read and write ${file}, got ${code} (${message}): look at the disk and the system's log, then try again`;
}
