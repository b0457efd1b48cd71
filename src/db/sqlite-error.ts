import Database from "better-sqlite3";
import { DrizzleError } from "drizzle-orm";

type SqliteError = InstanceType<typeof Database.SqliteError>;

/** SQLite's own error, also where drizzle has wrapped it, as it does in migrations; null for any other. */
export function sqliteErrorOf(thrown: unknown): SqliteError | null {
  const error = thrown instanceof DrizzleError ? thrown.cause : thrown;
  return error instanceof Database.SqliteError ? error : null;
}

/** Whether another connection is in the way, which passes. */
export function isBusy(thrown: unknown): boolean {
  return /^SQLITE_(BUSY|LOCKED)/.test(sqliteErrorOf(thrown)?.code ?? "");
}
