import path from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it, onTestFinished } from "vitest";
import { openStore } from "../../src/db/store.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { claimOf, firstStep, identity, newTask, products, success } from "./suite/scene.ts";

/** A run after its first step, and a connection that knows nothing of the store's rules. */
async function setUp() {
  const file = path.join(temporaryFolder(), "pawl.db");
  const store = await openStore({ file });
  onTestFinished(() => store.close());
  const workerId = await store.registerWorker(identity, { version: "1", leaseMs: 60_000 });
  await store.enqueue([newTask()]);
  const row = await store.claim(workerId);
  if (!row) throw new Error("expected a run to claim");
  const claim = claimOf(row);
  await firstStep(store, claim);
  const sqlite = new Database(file);
  onTestFinished(() => void sqlite.close());
  const insert = sqlite.prepare(`
    INSERT INTO messages (run_id, seq, step, epoch, kind, body, tokens, at)
    VALUES (@runId, @seq, 1, @epoch, 'note', '{}', 1, 1)`);
  return { store, claim, runId: claim.runId, sqlite, insert };
}

describe("the database itself", () => {
  it.each([
    ["update", "UPDATE messages SET body = '{}' WHERE seq = 1"],
    ["delete", "DELETE FROM messages WHERE seq = 3"],
    [
      "replace",
      "REPLACE INTO messages SELECT id, run_id, 3, step, epoch, kind, ordinal, '{}', tokens, at FROM messages WHERE seq = 3",
    ],
  ])("refuses to %s a message of the log", async (_, statement) => {
    const { store, sqlite, runId } = await setUp();
    const before = await store.loadMessages(runId);
    expect(() => sqlite.exec(statement)).toThrow();
    expect(await store.loadMessages(runId)).toEqual(before);
  });

  it("takes a message of the running epoch at the run's seq, and only that", async () => {
    const { store, sqlite, insert, runId } = await setUp();
    sqlite.prepare("UPDATE runs SET seq = 4 WHERE id = ?").run(runId);
    for (const wrong of [
      { seq: 4, epoch: 0 },
      { seq: 4, epoch: 2 },
      { seq: 3, epoch: 1 },
      { seq: 5, epoch: 1 },
    ]) {
      expect(() => insert.run({ runId, ...wrong })).toThrow(/does not belong to the running epoch/);
    }
    insert.run({ runId, seq: 4, epoch: 1 });
    expect(await store.loadMessages(runId)).toHaveLength(4);
  });

  it.each(["queued", "waiting"])("refuses a message of a run that is %s", async (status) => {
    const { store, insert, claim, runId } = await setUp();
    if (status === "queued") await store.release(claim, 0);
    else await store.wait(claim, { kind: "paused", note: null, wakeAt: null }, 0);
    expect(() => insert.run({ runId, seq: 3, epoch: 1 })).toThrow(/does not belong to the running epoch/);
  });

  it("refuses a message after the end", async () => {
    const { store, insert, claim, runId } = await setUp();
    await store.finish(claim, { ...success, ...products, activeMs: 1 });
    expect(() => insert.run({ runId, seq: 3, epoch: 1 })).toThrow(/does not belong to the running epoch/);
    expect(() => insert.run({ runId, seq: 4, epoch: 1 })).toThrow(/does not belong to the running epoch/);
  });

  it.each([
    ["a second outcome", "status = 'failed', reason = 'stuck'"],
    ["another reason", "reason = 'verified'"],
    ["a way back to the queue", "status = 'queued'"],
    ["a new owner", "epoch = epoch + 1"],
    ["one more step", "seq = seq + 1, steps = steps + 1"],
  ])("refuses a finished run %s", async (_, change) => {
    const { store, sqlite, claim, runId } = await setUp();
    await store.finish(claim, { ...success, ...products, activeMs: 1 });
    const before = await store.getRun(runId);
    expect(() => sqlite.exec(`UPDATE runs SET ${change}`)).toThrow("a terminal outcome is final");
    expect(await store.getRun(runId)).toEqual(before);
  });

  it("lets a whole run be deleted, and nothing of it stays", async () => {
    const { store, sqlite, claim, runId } = await setUp();
    await store.compact(
      claim,
      { n: 1, kind: "digest", throughSeq: 2, body: "", modelCall: null, tokensBefore: 1, tokensAfter: 1 },
      null,
      0,
    );
    await store.finish(claim, { ...success, ...products, activeMs: 1 });
    sqlite.pragma("foreign_keys = ON");
    sqlite.prepare("DELETE FROM runs WHERE id = ?").run(runId);
    for (const table of ["messages", "calls", "model_calls", "compactions", "snapshots"]) {
      expect(sqlite.prepare(`SELECT count(*) FROM ${table}`).pluck().get()).toBe(0);
    }
    expect(await store.loadEvents({ runId })).toEqual([]);
    expect(sqlite.pragma("foreign_key_check")).toEqual([]);
  });

  it("refuses a second run under a key of its batch", async () => {
    const { store, sqlite } = await setUp();
    await store.enqueue([newTask({ key: "k" })]);
    const copy = `INSERT INTO runs (id, batch_id, key, spec, spec_hash, created_at)
      SELECT 'other', batch_id, key, spec, spec_hash, created_at FROM runs WHERE key = 'k'`;
    expect(() => sqlite.exec(copy)).toThrow(/UNIQUE/);
  });
});
