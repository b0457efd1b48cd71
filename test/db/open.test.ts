import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import Database from "better-sqlite3";
import { DrizzleError } from "drizzle-orm";
import { drizzle } from "drizzle-orm/better-sqlite3";
import { migrate } from "drizzle-orm/better-sqlite3/migrator";
import { describe, expect, it, onTestFinished } from "vitest";
import { explainDatabase, openConnection, requireSafeVersion, setPragmas } from "../../src/db/open.ts";
import { openStore } from "../../src/db/store.ts";
import { ConfigError, DatabaseError } from "../../src/errors.ts";
import { startDatabaseProcess } from "../helpers/database-process.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const newFile = () => path.join(temporaryFolder(), "pawl.db");

/** A file with pawl's tables, closed. */
async function existingFile(): Promise<string> {
  const file = newFile();
  await (await openStore({ file })).close();
  return file;
}

/** Does something to a file through a connection of its own. */
function change(file: string, work: (sqlite: Database.Database) => void): void {
  const sqlite = new Database(file);
  work(sqlite);
  sqlite.close();
}

async function open(file: string) {
  const connection = await openConnection(file);
  onTestFinished(() => void connection.sqlite.close());
  return connection.sqlite;
}

/** As it was before the newest migration. */
function oldFile(): string {
  const file = newFile();
  const folder = temporaryFolder();
  const journal = JSON.parse(readFileSync("migrations/meta/_journal.json", "utf8")) as { entries: unknown[] };
  mkdirSync(path.join(folder, "meta"));
  for (const name of readdirSync("migrations").filter((each) => each.endsWith(".sql")))
    copyFileSync(path.join("migrations", name), path.join(folder, name));
  const older = { ...journal, entries: journal.entries.slice(0, -1) };
  writeFileSync(path.join(folder, "meta", "_journal.json"), JSON.stringify(older));
  change(file, (sqlite) => {
    sqlite.pragma(`application_id = ${0x7061776c}`);
    sqlite.pragma("journal_mode = WAL");
    migrate(drizzle(sqlite), { migrationsFolder: folder });
  });
  return file;
}

const migrations = readdirSync("migrations").filter((file) => file.endsWith(".sql")).length;

describe("opening the database", () => {
  it("creates the file and its folder, with every commit safe on disk", async () => {
    const file = path.join(temporaryFolder(), "a", "b", "pawl.db");
    const sqlite = await open(file);
    const pragma = (name: string) => sqlite.pragma(name, { simple: true });
    expect(pragma("journal_mode")).toBe("wal");
    expect(pragma("synchronous")).toBe(2);
    expect(pragma("foreign_keys")).toBe(1);
    expect(pragma("integrity_check")).toBe("ok");
  });

  it("finds again what was written before", async () => {
    const file = newFile();
    const first = await openStore({ file });
    const id = await first.registerWorker(
      { host: "h", bootId: null, pidNamespace: null, pid: 1, startTicks: null },
      { version: "1", leaseMs: 1 },
    );
    await first.close();
    const second = await openStore({ file });
    onTestFinished(() => second.close());
    expect((await second.loadWorkers()).map((worker) => worker.id)).toEqual([id]);
  });

  it("works for six processes that open a new file at the same moment, round after round", async () => {
    const folder = temporaryFolder();
    const processes = await Promise.all(Array.from({ length: 6 }, () => startDatabaseProcess()));
    for (let round = 0; round < 8; round += 1) {
      const file = path.join(folder, `${round}.db`);
      const answers = await Promise.all(
        processes.map((process) => process.ask({ do: "write", file, verbs: 1 })),
      );
      expect(answers).toEqual(processes.map(() => ({ ok: true })));
      change(file, (sqlite) => {
        const applied = sqlite.prepare("SELECT count(*) AS n FROM __drizzle_migrations").get();
        expect(applied).toEqual({ n: migrations });
        expect(sqlite.prepare("SELECT count(*) AS n FROM workers").get()).toEqual({ n: 6 });
        expect(sqlite.pragma("integrity_check", { simple: true })).toBe("ok");
      });
    }
  });

  it("waits for the writers of an older version before it migrates their file", async () => {
    const file = oldFile();
    const holder = await startDatabaseProcess();
    await holder.ask({ do: "hold", file, ms: 300 });
    const store = await openStore({ file });
    onTestFinished(() => store.close());
    change(file, (sqlite) => {
      const applied = sqlite.prepare("SELECT count(*) AS n FROM __drizzle_migrations").get();
      expect(applied).toEqual({ n: migrations });
    });
  });

  it("goes on where a process died between the mark and the tables", async () => {
    const file = newFile();
    change(file, (sqlite) => {
      sqlite.pragma(`application_id = ${0x7061776c}`);
      sqlite.exec("CREATE TABLE __drizzle_migrations (id SERIAL PRIMARY KEY, hash text, created_at numeric)");
    });
    const sqlite = await open(file);
    expect(sqlite.prepare("SELECT id FROM batches").all()).toEqual([{ id: "b0" }]);
  });

  it("refuses a database that a newer pawl has written, and leaves it alone", async () => {
    const file = await existingFile();
    change(file, (sqlite) => {
      sqlite.exec("INSERT INTO __drizzle_migrations (hash, created_at) VALUES ('later', 9999999999999)");
    });
    const before = readFileSync(file);
    const refused = openConnection(file);
    await expect(refused).rejects.toBeInstanceOf(ConfigError);
    await expect(refused).rejects.toThrow(/written by a newer pawl at .*: update pawl/);
    expect(readFileSync(file).equals(before)).toBe(true);
  });

  it.each([
    ["of another program", "CREATE TABLE notes (id)"],
    [
      "of another program that uses the same migrations",
      "CREATE TABLE __drizzle_migrations (hash, created_at); CREATE TABLE runs (id)",
    ],
  ])("refuses a SQLite file %s, and leaves it alone", async (_, tables) => {
    const file = newFile();
    change(file, (sqlite) => void sqlite.exec(tables));
    const before = readFileSync(file);
    const refused = openConnection(file);
    await expect(refused).rejects.toBeInstanceOf(ConfigError);
    await expect(refused).rejects.toThrow(/holds another program's tables: .*PAWL_HOME/);
    expect(readFileSync(file).equals(before)).toBe(true);
  });

  it("refuses a file that is no SQLite file, and leaves it alone", async () => {
    const file = newFile();
    writeFileSync(file, "these are my notes\n".repeat(100));
    const refused = openConnection(file);
    await expect(refused).rejects.toBeInstanceOf(ConfigError);
    await expect(refused).rejects.toThrow(/is not a SQLite file/);
    expect(readFileSync(file, "utf8")).toMatch(/^these are my notes/);
  });

  it.each([
    ["cut short", (whole: Buffer) => whole.subarray(0, 4096)],
    ["with garbage in its schema", (whole: Buffer) => Buffer.from(whole).fill(0xa5, 100, 4096)],
  ])("refuses a damaged file: one %s", async (_, damage) => {
    const file = newFile();
    writeFileSync(file, damage(readFileSync(await existingFile())));
    const refused = openConnection(file);
    await expect(refused).rejects.toBeInstanceOf(ConfigError);
    await expect(refused).rejects.toThrow(/is damaged: .*restore it from a backup/);
  });

  it("says which file cannot be opened", async () => {
    const file = newFile();
    mkdirSync(file);
    const refused = openConnection(file);
    await expect(refused).rejects.toBeInstanceOf(ConfigError);
    await expect(refused).rejects.toThrow(`read and write ${file}`);
  });

  it("opens a copy of a closed file", async () => {
    const copy = newFile();
    copyFileSync(await existingFile(), copy);
    expect((await open(copy)).pragma("integrity_check", { simple: true })).toBe("ok");
  });

  it("refuses where write-ahead logging does not work", async () => {
    // A database in memory is one that SQLite cannot put into WAL mode.
    const sqlite = new Database(":memory:");
    onTestFinished(() => void sqlite.close());
    await expect(setPragmas(sqlite, "/net/pawl.db")).rejects.toThrow(
      /write-ahead logging to work at \/net\/pawl\.db, got journal mode memory/,
    );
  });

  it.each(["3.51.2", "3.50.99", "3.9.0", "2.99.99", "unknown"])("refuses SQLite %s", (version) => {
    expect(() => requireSafeVersion(version)).toThrow(`or newer`);
    expect(() => requireSafeVersion(version)).toThrow(ConfigError);
  });

  it.each(["3.51.3", "3.51.10", "3.100.0", "4.0.0"])("accepts SQLite %s", (version) => {
    expect(() => requireSafeVersion(version)).not.toThrow();
  });
});

describe("an error of SQLite", () => {
  const explain = (code: string) => explainDatabase(new Database.SqliteError("said", code), newFile());

  it.each([
    ...[
      "SQLITE_IOERR",
      "SQLITE_IOERR_READ",
      "SQLITE_IOERR_WRITE",
      "SQLITE_IOERR_FSYNC",
      "SQLITE_IOERR_SHMMAP",
    ],
    ...["SQLITE_FULL", "SQLITE_CORRUPT_INDEX", "SQLITE_NOTADB", "SQLITE_CANTOPEN", "SQLITE_READONLY_DBMOVED"],
    ...["SQLITE_NOMEM", "SQLITE_PROTOCOL"],
  ])("is the database's where it is %s: it ends no run", (code) => {
    expect(explain(code)).toBeInstanceOf(DatabaseError);
  });

  it.each(["SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_TRIGGER", "SQLITE_ERROR", "SQLITE_TOOBIG"])(
    "is the statement's where it is %s, and thrown on",
    (code) => {
      expect(explain(code)).toMatchObject({ name: "SqliteError", code });
    },
  );

  it("is known where the migrations hand it on", () => {
    const cause = new Database.SqliteError("disk I/O error", "SQLITE_IOERR_READ");
    const error = explainDatabase(new DrizzleError({ message: "Failed to run the query", cause }), newFile());
    expect(error).toBeInstanceOf(DatabaseError);
  });
});
