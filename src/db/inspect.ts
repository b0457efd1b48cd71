import Database from "better-sqlite3";
import { appliedMigration, newestMigration, requireSafeVersion } from "./open.ts";
import { retryBusy } from "./writer.ts";

/** How a file's tables relate to this pawl: an older file is migrated by the next command that opens it. */
export type SchemaState = "current" | "older" | "newer";

/** SQLite's version. Throws ConfigError for one that can damage a file. */
export function sqliteVersion(): string {
  const sqlite = new Database(":memory:");
  try {
    const version = sqlite.prepare<[], string>("SELECT sqlite_version()").pluck().get() ?? "unknown";
    requireSafeVersion(version);
    return version;
  } finally {
    sqlite.close();
  }
}

/** Looks at a database without migrating it. Throws ConfigError for a file that is not pawl's. */
export async function inspectSchema(file: string): Promise<SchemaState> {
  const sqlite = new Database(file, { readonly: true });
  try {
    const applied = await appliedMigration(sqlite, file);
    const newest = newestMigration();
    if (applied === newest) return "current";
    return applied < newest ? "older" : "newer";
  } finally {
    sqlite.close();
  }
}

/** `ok`, or the first thing that is wrong with the file. Takes as long as reading all of it, and nothing can interrupt it. */
export async function quickCheck(file: string): Promise<string> {
  const sqlite = new Database(file, { readonly: true });
  try {
    return String(await retryBusy(() => sqlite.pragma("quick_check(1)", { simple: true })));
  } finally {
    sqlite.close();
  }
}
