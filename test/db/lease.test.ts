import path from "node:path";
import Database from "better-sqlite3";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Lease } from "../../src/db/lease.ts";
import { openStore } from "../../src/db/store.ts";
import { LeaseLostError } from "../../src/errors.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { waitUntil } from "../helpers/wait-until.ts";
import { identity } from "./suite/scene.ts";

const leaseMs = 1000;
const patience = { timeoutMs: 30_000 };

/** A worker with a lease that is being renewed, and its row as another connection sees it. */
async function holdLease() {
  const file = path.join(temporaryFolder(), "pawl.db");
  const store = await openStore({ file });
  const workerId = await store.registerWorker(identity, { version: "1", leaseMs });
  const other = new Database(file);
  const row = () => other.prepare("SELECT * FROM workers").get() as { lease_until: number; detail: string };
  const renewed = row().lease_until;
  const lease = store.keepLease(workerId, leaseMs);
  onTestFinished(async () => {
    await lease.stop();
    await store.close();
    other.close();
  });
  await waitUntil(() => row().lease_until > renewed, { ...patience, what: "the first renewal" });
  return { store, workerId, lease, row, other };
}

/** Keeps this thread busy until the condition holds: no timer, no promise gets a turn. */
function blockUntil(condition: () => boolean): void {
  const deadlineAt = Date.now() + patience.timeoutMs;
  while (!condition() && Date.now() < deadlineAt) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
  }
}

async function isLost({ lost }: Lease): Promise<unknown> {
  await waitUntil(() => lost.aborted, { ...patience, what: "the loss is told" });
  return lost.reason;
}

describe("a lease", () => {
  test("is renewed while the main thread is busy for longer than the lease", async () => {
    const { lease, row } = await holdLease();
    const freeAt = Date.now() + 2 * leaseMs;
    blockUntil(() => Date.now() > freeAt);
    expect(row().lease_until).toBeGreaterThan(freeAt);
    expect(lease.lost.aborted).toBe(false);
  });

  test("is given up, and marked so, by a worker whose main thread is stuck", async () => {
    const { lease, row } = await holdLease();
    blockUntil(() => row().lease_until === 0);
    expect(row()).toMatchObject({ lease_until: 0, detail: "stuck" });
    expect(await isLost(lease)).toBeInstanceOf(LeaseLostError);
  });

  test("that was taken away stays so, and the loss is told", async () => {
    const { store, workerId, lease, row } = await holdLease();
    await store.removeWorker(workerId, "dead");
    const after = row();
    expect(await isLost(lease)).toBeInstanceOf(LeaseLostError);
    expect(row()).toEqual(after);
  });

  test("whose row is gone is lost, and nothing is written", async () => {
    const { lease, other } = await holdLease();
    other.exec("DELETE FROM workers");
    expect(await isLost(lease)).toBeInstanceOf(LeaseLostError);
    expect(other.prepare("SELECT count(*) AS n FROM workers").get()).toEqual({ n: 0 });
  });

  test("is not renewed any more once it is stopped", async () => {
    const { lease, row } = await holdLease();
    await lease.stop();
    const after = row();
    await waitUntil(() => Date.now() > after.lease_until, { ...patience, what: "it runs out" });
    expect(row()).toEqual(after);
    expect(lease.lost.aborted).toBe(false);
  });
});
