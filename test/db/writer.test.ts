import path from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it, onTestFinished } from "vitest";
import { isBusy } from "../../src/db/sqlite-error.ts";
import { openStore } from "../../src/db/store.ts";
import { createWriter } from "../../src/db/writer.ts";
import { startDatabaseProcess } from "../helpers/database-process.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { waitUntil } from "../helpers/wait-until.ts";
import { identity } from "./suite/scene.ts";

function connect(file: string): Database.Database {
  const sqlite = new Database(file, { timeout: 5 });
  onTestFinished(() => void sqlite.close());
  sqlite.pragma("journal_mode = WAL");
  return sqlite;
}

function setUp() {
  const file = path.join(temporaryFolder(), "t.db");
  const sqlite = connect(file);
  sqlite.exec("CREATE TABLE t (n INTEGER PRIMARY KEY)");
  const insert = sqlite.prepare("INSERT INTO t VALUES (?)");
  const other = connect(file);
  const rows = other.prepare("SELECT n FROM t ORDER BY n").pluck();
  return {
    sqlite,
    other,
    writer: createWriter(sqlite),
    add: (n: number) => () => insert.run(n).changes,
    /** What another connection sees: what is committed. */
    committed: () => rows.all(),
  };
}

/** Measures, from now until it is asked, for how long the event loop stood still at the most. */
function watchEventLoop(): () => number {
  let lastAt = performance.now();
  let longestMs = 0;
  const look = () => {
    const now = performance.now();
    longestMs = Math.max(longestMs, now - lastAt);
    lastAt = now;
  };
  const timer = setInterval(look, 1);
  onTestFinished(() => clearInterval(timer));
  return () => {
    look();
    return longestMs;
  };
}

describe("the writer", () => {
  it("commits verbs that arrive together once, and each before its promise resolves", async () => {
    const { writer, other, add, committed } = setUp();
    const version = () => other.pragma("data_version", { simple: true });
    const before = Number(version());
    const seen: unknown[] = [];
    const verbs = [1, 2, 3].map(async (n) => {
      await writer.write(add(n));
      seen.push(committed());
    });
    await Promise.all(verbs);
    expect(seen).toEqual([
      [1, 2, 3],
      [1, 2, 3],
      [1, 2, 3],
    ]);
    expect(Number(version()) - before).toBe(1);
  });

  it("runs verbs in the order they arrived and gives what they return", async () => {
    const { writer } = setUp();
    const order: number[] = [];
    const verbs = [1, 2, 3].map((n) => writer.write(() => order.push(n) * 10));
    expect(await Promise.all(verbs)).toEqual([10, 20, 30]);
    expect(order).toEqual([1, 2, 3]);
  });

  it("undoes a verb that fails, wholly, and none of those beside it", async () => {
    const { writer, add, committed } = setUp();
    const results = await Promise.allSettled([
      writer.write(add(1)),
      writer.write(() => {
        add(2)();
        throw new Error("no");
      }),
      writer.write(() => {
        add(3)();
        add(1)();
      }),
      writer.write(add(4)),
    ]);
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "rejected", "fulfilled"]);
    expect(results[1]).toMatchObject({ reason: { message: "no" } });
    expect(results[2]).toMatchObject({ reason: { code: "SQLITE_CONSTRAINT_PRIMARYKEY" } });
    expect(committed()).toEqual([1, 4]);
  });

  it("rejects all verbs of a commit that SQLite gives up, and goes on afterwards", async () => {
    const { writer, sqlite, add, committed } = setUp();
    const giveUp = () => {
      sqlite.exec("ROLLBACK");
      throw new Error("given up");
    };
    const results = await Promise.allSettled([writer.write(add(1)), writer.write(giveUp)]);
    expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(committed()).toEqual([]);
    await writer.write(add(2));
    expect(committed()).toEqual([2]);
  });

  it("takes more verbs than one commit holds", async () => {
    const { writer, add, committed } = setUp();
    await Promise.all(Array.from({ length: 1000 }, (_, n) => writer.write(add(n))));
    expect(committed()).toHaveLength(1000);
  });

  it("is settled once all that was handed in is committed", async () => {
    const { writer, add, committed } = setUp();
    void writer.write(add(1));
    void writer.write(add(2));
    await writer.settled();
    expect(committed()).toEqual([1, 2]);
    await writer.settled();
  });

  it("waits while another connection holds the write lock, and never says so", async () => {
    const { writer, other, add, committed } = setUp();
    other.exec("BEGIN IMMEDIATE");
    let isDone = false;
    const verb = writer.write(add(1)).then(() => {
      isDone = true;
    });
    const startedAt = performance.now();
    await waitUntil(() => performance.now() - startedAt > 200, { timeoutMs: 5000, what: "200 ms passed" });
    expect(isDone).toBe(false);
    other.exec("COMMIT");
    await verb;
    expect(committed()).toEqual([1]);
  });
});

describe("a file that several processes use", () => {
  it("lets each write all it has to write, and none meets a busy database", async () => {
    const file = path.join(temporaryFolder(), "pawl.db");
    const store = await openStore({ file });
    onTestFinished(() => store.close());
    const processes = await Promise.all([startDatabaseProcess(), startDatabaseProcess()]);
    const answers = processes.map((process) => process.ask({ do: "write", file, verbs: 300 }));
    for (let n = 0; n < 300; n += 1) {
      await store.registerWorker(identity, { version: "1", leaseMs: 1 });
      await store.loadWorkers();
    }
    expect(await Promise.all(answers)).toEqual([{ ok: true }, { ok: true }]);
    expect(await store.loadWorkers()).toHaveLength(900);
  });

  it("never freezes the event loop while another process holds the write lock", async () => {
    const file = path.join(temporaryFolder(), "pawl.db");
    const store = await openStore({ file });
    onTestFinished(() => store.close());
    const process = await startDatabaseProcess();
    await process.ask({ do: "hold", file, ms: 1500 });
    const released = process.answer();
    const longestFreezeMs = watchEventLoop();
    const startedAt = performance.now();
    const writes = Array.from({ length: 20 }, () =>
      store.registerWorker(identity, { version: "1", leaseMs: 1 }),
    );
    // Reads go on meanwhile: they see what was committed before.
    expect(await store.loadWorkers()).toEqual([]);
    await Promise.all(writes);
    const waitedMs = performance.now() - startedAt;
    const frozenMs = longestFreezeMs();
    await released;
    expect(waitedMs).toBeGreaterThan(1000);
    // The driver itself would sit still for all of the 1,500 ms; the bound leaves room for a slow machine.
    expect(frozenMs).toBeLessThan(500);
    expect(await store.loadWorkers()).toHaveLength(20);
  });

  it("opens while another process holds the write lock", async () => {
    const file = path.join(temporaryFolder(), "pawl.db");
    await (await openStore({ file })).close();
    const process = await startDatabaseProcess();
    await process.ask({ do: "hold", file, ms: 500 });
    const released = process.answer();
    const store = await openStore({ file });
    await store.registerWorker(identity, { version: "1", leaseMs: 1 });
    await released;
    await store.close();
  });

  it("knows a busy database from other failures", () => {
    expect(isBusy(new Database.SqliteError("busy", "SQLITE_BUSY"))).toBe(true);
    expect(isBusy(new Database.SqliteError("busy", "SQLITE_BUSY_SNAPSHOT"))).toBe(true);
    expect(isBusy(new Database.SqliteError("locked", "SQLITE_LOCKED"))).toBe(true);
    expect(isBusy(new Database.SqliteError("full", "SQLITE_FULL"))).toBe(false);
    expect(isBusy(new Error("SQLITE_BUSY"))).toBe(false);
  });
});
