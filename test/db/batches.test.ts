import path from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it, onTestFinished } from "vitest";
import { nextRunQuery } from "../../src/db/claim.ts";
import { openStore } from "../../src/db/store.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { newTask, products, setScene, success } from "./suite/scene.ts";

/** A scene in a file, and a connection beside it for what no verb sets yet: the limits of a batch. */
async function setUp() {
  const file = path.join(temporaryFolder(), "pawl.db");
  const scene = await setScene(({ now }) => openStore({ file, now }));
  const sqlite = new Database(file);
  onTestFinished(() => void sqlite.close());
  const setBatch = (name: string, limits: { pausedAt?: number; maxRunning?: number }) =>
    sqlite
      .prepare("UPDATE batches SET paused_at = ?, max_running = ? WHERE name = ?")
      .run(limits.pausedAt ?? null, limits.maxRunning ?? null, name);
  return { ...scene, sqlite, setBatch };
}

describe("a batch", () => {
  it("that is paused gives no run, the others do", async () => {
    const { add, addWorker, takeAll, setBatch } = await setUp();
    const worker = await addWorker();
    const held = await add({ batch: "held", priority: 9 });
    const free = await add({ batch: "free" });
    setBatch("held", { pausedAt: 1 });
    expect(await takeAll(worker)).toEqual([free]);
    setBatch("held", {});
    expect(await takeAll(worker)).toEqual([held]);
  });

  it("has at most as many runs running as it allows", async () => {
    const { store, add, addWorker, take, takeAll, setBatch } = await setUp();
    const worker = await addWorker();
    const ids = [await add({ batch: "b" }), await add({ batch: "b" }), await add({ batch: "b" })];
    setBatch("b", { maxRunning: 2 });
    const first = await take(worker);
    expect(await takeAll(worker)).toEqual([ids[1]]);
    await store.finish(first.claim, { ...success, ...products, activeMs: 1 });
    expect(await takeAll(worker)).toEqual([ids[2]]);
  });

  it("that holds its runs back is no work for a drain, nor is what stands behind them", async () => {
    const { store, clock, add, setBatch } = await setUp();
    await add({ batch: "b" }, { dir: "/here" });
    await add({}, { dir: "/here" });
    expect(await store.hasWork(clock.at)).toBe(true);
    setBatch("b", { pausedAt: 1 });
    expect(await store.hasWork(clock.at)).toBe(false);
    setBatch("b", { maxRunning: 0 });
    expect(await store.hasWork(clock.at)).toBe(false);
    setBatch("b", { maxRunning: 1 });
    expect(await store.hasWork(clock.at)).toBe(true);
  });
});

describe("a claim among 100,000 queued runs", () => {
  it("looks each batch up in an index and scans nothing that grows with the queue", async () => {
    const { store, sqlite, addWorker, take } = await setUp();
    for (const batch of ["a", "b"]) {
      await store.enqueue(Array.from({ length: 50_000 }, () => newTask({ batch })));
    }
    sqlite.exec("ANALYZE");
    const plan = sqlite
      .prepare<{ day: string }, { detail: string }>(`EXPLAIN QUERY PLAN ${nextRunQuery}`)
      .all({ day: "day:2026-01-01" })
      .map(({ detail }) => detail);
    const ofRuns = plan.filter((detail) => /\b(runs|head)\b/.test(detail));
    expect(ofRuns.length).toBeGreaterThanOrEqual(4);
    for (const detail of ofRuns) expect(detail).toMatch(/^SEARCH /);
    // The first batch of all is one end of the index; all others are found by key.
    expect(plan.filter((detail) => detail.startsWith("SCAN ")).toSorted()).toEqual([
      "SCAN ready",
      "SCAN ready",
    ]);
    expect(plan.some((detail) => detail.includes("runs_ready (batch_id=?)"))).toBe(true);
    const worker = await addWorker();
    const batches = [await take(worker), await take(worker), await take(worker)].map(
      ({ row }) => row.batchId,
    );
    expect(new Set(batches).size).toBe(2);
  });
});
