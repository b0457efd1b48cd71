import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { embeddedQueue } from "../../src/queue/embedded.ts";
import type { Queue } from "../../src/queue/queue.ts";

const longMs = 30_000;
const hint = { runId: "run1", generation: 1 };
const never = new AbortController().signal;

/** Waits and says for how long. */
async function timed(wait: Promise<void>): Promise<number> {
  const startedAt = performance.now();
  await wait;
  return performance.now() - startedAt;
}

/** True when the wait is still pending a good while after the queue would have noticed a change. */
async function isStillWaiting(wait: Promise<void>): Promise<boolean> {
  const pending = Symbol("pending");
  const first = await Promise.race([wait, new Promise((resolve) => setTimeout(resolve, 100, pending))]);
  return first === pending;
}

describe("the embedded queue", () => {
  let dir: string;
  let reader: Database.Database;
  let writer: Database.Database;
  let queue: Queue;

  beforeEach(() => {
    dir = mkdtempSync(path.join(tmpdir(), "pawl-queue-"));
    writer = openDatabase(dir);
    writer.exec("CREATE TABLE numbers (n)");
    reader = openDatabase(dir);
    queue = embeddedQueue({ dataVersion });
  });

  afterEach(async () => {
    await queue.close();
    reader.close();
    writer.close();
    rmSync(dir, { recursive: true, force: true });
  });

  const dataVersion = () => Number(reader.pragma("data_version", { simple: true }));
  const commitElsewhere = () => writer.exec("INSERT INTO numbers VALUES (1)");

  test("a hint published in this process wakes every waiter at once", async () => {
    const waits = [timed(queue.wait(longMs, never)), timed(queue.wait(longMs, never))];
    await queue.publish([hint]);
    for (const ms of await Promise.all(waits)) expect(ms).toBeLessThan(50);
  });

  test("a commit of another connection wakes a waiter within 200 ms", async () => {
    const wait = timed(queue.wait(longMs, never));
    commitElsewhere();
    expect(await wait).toBeLessThan(200);
  });

  test("a commit between two waits ends the second at once, however slow the poll", async () => {
    const slow = embeddedQueue({ dataVersion, pollMs: longMs });
    await slow.wait(1, never);
    commitElsewhere();
    expect(await timed(slow.wait(longMs, never))).toBeLessThan(50);
  });

  test("a commit before the first wait ends it at once", async () => {
    commitElsewhere();
    expect(await timed(queue.wait(longMs, never))).toBeLessThan(50);
  });

  test("a hint published between two waits ends the second at once", async () => {
    await queue.wait(1, never);
    await queue.publish([hint]);
    expect(await timed(queue.wait(longMs, never))).toBeLessThan(50);
  });

  test("a commit noticed by one waiter is not lost on another that was looking for work meanwhile", async () => {
    const asleep = queue.wait(longMs, never);
    await queue.wait(1, never);
    commitElsewhere();
    await asleep;
    expect(await timed(queue.wait(longMs, never))).toBeLessThan(50);
  });

  test("a change is told once: the wait after it sleeps", async () => {
    commitElsewhere();
    await queue.wait(longMs, never);
    const abort = new AbortController();
    const wait = queue.wait(longMs, abort.signal);
    expect(await isStillWaiting(wait)).toBe(true);
    abort.abort();
    await wait;
  });

  test("nothing published is no hint", async () => {
    const abort = new AbortController();
    const wait = queue.wait(longMs, abort.signal);
    await queue.publish([]);
    expect(await isStillWaiting(wait)).toBe(true);
    abort.abort();
    await wait;
  });

  test("a wait ends after its time", async () => {
    const ms = await timed(queue.wait(60, never));
    expect(ms).toBeGreaterThanOrEqual(55);
    expect(ms).toBeLessThan(1_000);
  });

  test("an abort ends a wait, and one that came before ends it at once", async () => {
    const abort = new AbortController();
    const wait = timed(queue.wait(longMs, abort.signal));
    abort.abort();
    expect(await wait).toBeLessThan(50);
    expect(await timed(queue.wait(longMs, abort.signal))).toBeLessThan(50);
  });

  test("a time longer than timers can hold does not end at once", async () => {
    const abort = new AbortController();
    const wait = queue.wait(Number.POSITIVE_INFINITY, abort.signal);
    expect(await isStillWaiting(wait)).toBe(true);
    abort.abort();
    await wait;
  });

  test("a database that cannot be read ends no wait early and rejects nothing", async () => {
    await queue.wait(1, never);
    reader.close();
    expect(await timed(queue.wait(60, never))).toBeGreaterThanOrEqual(55);
  });

  test("close wakes who waits, and later waits just take their time", async () => {
    const wait = timed(queue.wait(longMs, never));
    await queue.close();
    expect(await wait).toBeLessThan(50);
    expect(await timed(queue.wait(60, never))).toBeGreaterThanOrEqual(55);
  });
});

function openDatabase(dir: string): Database.Database {
  const database = new Database(path.join(dir, "pawl.db"));
  database.pragma("journal_mode = WAL");
  return database;
}
