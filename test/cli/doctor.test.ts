import { closeSync, openSync, writeSync } from "node:fs";
import path from "node:path";
import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { startAgentServer } from "../helpers/agent-server.ts";
import { type CommandLine, commandLine } from "../helpers/command-line.ts";
import { waitUntil } from "../helpers/wait-until.ts";

interface Check {
  name: string;
  ok: boolean;
  detail: string;
}

/** A project with one run, and what doctor says of it: check by check. */
async function withRun(env: Record<string, string> = {}) {
  const server = await startAgentServer();
  const line = commandLine({ env: { ...server.env, ...env } });
  await line.pawl(["enqueue", "x"]);
  return { ...line, database: () => openDatabase(line) };
}

function openDatabase({ folder }: CommandLine): Database.Database {
  const database = new Database(path.join(folder, ".pawl", "pawl.db"));
  onTestFinished(() => void database.close());
  return database;
}

async function examine({ pawl }: CommandLine, env: Record<string, string> = {}) {
  const { stdout, code } = await pawl(["doctor", "--json"], { env });
  const { checks } = JSON.parse(stdout) as { checks: Check[] };
  return { code, ...Object.fromEntries(checks.map((check) => [check.name, check])) } as {
    code: number | undefined;
  } & Record<string, Check>;
}

test("doctor finds disk and database in order, and counts the workers that are alive", async () => {
  const line = await withRun();
  const idle = await examine(line);
  expect(idle.code).toBe(0);
  expect(idle.data?.detail).toMatch(/\.pawl, [\d.]+ [MG]B free$/);
  expect(idle.database?.detail).toMatch(/^SQLite 3\.\d+\.\d+, sound$/);
  expect(idle.workers?.detail).toContain("none is alive");
  line.start(["worker"]);
  await waitUntil(async () => (await line.json(["status"])).some((report) => hasWorkers(report)), {
    timeoutMs: 20_000,
    what: "a worker is alive",
  });
  expect((await examine(line)).workers).toEqual({ name: "workers", ok: true, detail: "1 alive" });
});

function hasWorkers(report: Record<string, unknown>): boolean {
  return Array.isArray(report.workers) && report.workers.length > 0;
}

test("doctor says that a disk has less room than workers need", async () => {
  const line = await withRun();
  const { code, data } = await examine(line, { PAWL_MIN_FREE_BYTES: "999999999999999" });
  expect(code).toBe(1);
  expect(data).toMatchObject({ ok: false, detail: expect.stringContaining("begin nothing new below") });
});

const newest = "created_at = (SELECT max(created_at) FROM __drizzle_migrations)";

test("doctor tells a newer and an older database, and migrates neither", async () => {
  const line = await withRun();
  const migrations = line.database().prepare("SELECT created_at FROM __drizzle_migrations").pluck();
  line.database().exec(`UPDATE __drizzle_migrations SET created_at = created_at + 9e12 WHERE ${newest}`);
  const newer = await examine(line);
  expect(newer.code).toBe(1);
  expect(newer.database).toMatchObject({
    ok: false,
    detail: expect.stringMatching(/newer pawl: update pawl$/),
  });
  line.database().exec(`DELETE FROM __drizzle_migrations WHERE ${newest}`);
  const before = migrations.all();
  const older = await examine(line);
  expect(older.code).toBe(0);
  expect(older.database).toMatchObject({ ok: true, detail: expect.stringContaining("older pawl") });
  expect(migrations.all()).toEqual(before);
});

test("doctor reads the whole database and says that it is damaged", async () => {
  const line = await withRun();
  const database = line.database();
  database.pragma("wal_checkpoint(TRUNCATE)");
  const root = database.prepare("SELECT rootpage FROM sqlite_master WHERE name = 'runs'").pluck().get();
  const file = path.join(line.folder, ".pawl", "pawl.db");
  const pageSize = Number(database.pragma("page_size", { simple: true }));
  database.close();
  const handle = openSync(file, "r+");
  writeSync(handle, Buffer.alloc(pageSize, 0xa5), 0, pageSize, (Number(root) - 1) * pageSize);
  closeSync(handle);
  const { code, database: found } = await examine(line);
  expect(code).toBe(1);
  expect(found).toMatchObject({
    ok: false,
    detail: expect.stringMatching(/damaged \(.*\): stop the workers/),
  });
});
