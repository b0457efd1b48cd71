import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { openRunLog } from "../../src/agent/run-log.ts";
import { openStore, type Store } from "../../src/db/store.ts";
import { prompt, protocol, taskText, turnOf } from "../agent/fixture.ts";
import type { Owner } from "../agent/owner.ts";
import { expectSoundLogs } from "../helpers/invariants.ts";
import { memoryFolder } from "../helpers/memory-folder.ts";
import { claimOf, identity, newTask, products, success } from "./suite/scene.ts";

// A power cut may lose the end of the write-ahead log. Whatever is left of it, the database is then as it was after one of the
// commits, and work goes on from there.

const cutBytes = 512;
const tables = ["runs", "workers", "batches", "messages", "calls", "model_calls", "snapshots", "events"];

const wire = ["c1", "c2"].map((id) => ({
  id,
  type: "function" as const,
  function: { name: "bash", arguments: "{}" },
}));
const twoCalls = turnOf({ content: null, tool_calls: wire }, "tool_calls", []).reply;
const longOutput = "x".repeat(5000);
const failure = { status: "failed", reason: "model_error", result: null, error: "e" } as const;

test("the database recovers to the state after a commit wherever its log is cut, and work goes on from there", async () => {
  const folder = memoryFolder();
  const file = path.join(folder, "pawl.db");
  await (await openStore({ file })).close();
  const base = path.join(folder, "base.db");
  copyFileSync(file, base);
  const states = await makeHistory(file);
  const log = readFileSync(`${file}-wal`);
  expect(readFileSync(file).equals(readFileSync(base)), "all of the history is in the log").toBe(true);
  let last = -1;
  for (let bytes = 0; bytes <= log.length + cutBytes; bytes += cutBytes) {
    const cut = path.join(mkdtempSync(path.join(folder, "cut-")), "pawl.db");
    copyFileSync(base, cut);
    writeFileSync(`${cut}-wal`, log.subarray(0, bytes));
    const found = states.indexOf(readCut(cut));
    expect(found, `a cut at ${bytes} of ${log.length} bytes`).toBeGreaterThanOrEqual(Math.max(0, last));
    if (found > last) await expectWorkGoesOn(cut);
    last = found;
    rmSync(path.dirname(cut), { recursive: true });
  }
  expect(last, "the whole log is the last state").toBe(states.length - 1);
  expect(states.length).toBeGreaterThan(20);
});

/** What a test writes, verb by verb, and the state of the file after each commit. */
interface History {
  store: Store;
  states: string[];
  /** Does something that is one commit. */
  commit<T>(work: () => Promise<T>): Promise<T>;
}

/** Two owners take a run to its end, and people cancel another; gives the states after the commits. */
async function makeHistory(file: string): Promise<string[]> {
  const store = await openStore({ file });
  onTestFinished(() => store.close());
  const disk = new Database(file, { readonly: true });
  onTestFinished(() => void disk.close());
  const states = [stateOf(disk)];
  const history: History = {
    store,
    states,
    async commit(work) {
      const value = await work();
      states.push(stateOf(disk));
      return value;
    },
  };
  await history.commit(() => store.enqueue([newTask({ key: "a" })]));
  const first = await enter(history);
  const begun = { prompt: JSON.stringify(prompt), spec: JSON.stringify(newTask().spec), model: "m" };
  const hash = await history.commit(() =>
    store.begin(first.claim, { ...begun, baseCommit: null, baseTree: null }),
  );
  first.log.start(prompt, hash, protocol.renderNote(taskText));
  await history.commit(first.log.committed);
  await ask(history, first);
  await answerCalls(history, first);
  await ask(history, first);
  // It asks between its two commits.
  const isBusy = async () => states.push(stateOf(disk)) < 0;
  await history.commit(() => store.removeWorker(first.claim.workerId, "dead", isBusy));
  const second = await enter(history);
  await answerCalls(history, second);
  await history.commit(() => store.finish(second.claim, { ...success, ...products, activeMs: 1 }));
  const [other] = await history.commit(() => store.enqueue([newTask({ key: "b" })]));
  await history.commit(() => store.cancel(other?.id ?? ""));
  return states;
}

/** A worker enters and claims what goes next. */
async function enter({ store, commit }: History): Promise<Owner> {
  const workerId = await commit(() => store.registerWorker(identity, { version: "1", leaseMs: 60_000 }));
  const row = await commit(() => store.claim(workerId));
  if (!row) throw new Error("expected a run to claim");
  const claim = claimOf(row);
  const log = openRunLog({ store, claim, protocol, activeMs: () => 0 });
  log.load(await store.loadTail(row.id, row.promptHash));
  return { claim, log };
}

async function ask({ commit }: History, { log }: Owner): Promise<void> {
  const n = log.plan("step", "m");
  await commit(log.committed);
  log.appendReply(n, twoCalls, () => "unsafe");
  await commit(log.committed);
}

async function answerCalls({ commit }: History, { log }: Owner): Promise<void> {
  for (const call of [...log.state.pending]) {
    log.startCall(call);
    await commit(log.committed);
    const tree = `t${log.state.seq}`;
    log.appendResult(call, { content: longOutput, isError: false, note: null, state: "done", tree });
    await commit(log.committed);
  }
}

function stateOf(database: Database.Database): string {
  return JSON.stringify(tables.map((table) => database.prepare(`SELECT * FROM ${table}`).all()));
}

/** Opens what is left and gives its state; SQLite must find nothing wrong with it, and neither must we. */
function readCut(file: string): string {
  const database = new Database(file);
  try {
    const state = stateOf(database);
    if (database.pragma("integrity_check", { simple: true }) !== "ok") throw new Error("the file is damaged");
    return state;
  } finally {
    database.close();
  }
}

/** Logs are sound; the worker that was there is dead, and another takes what is left to its end. */
async function expectWorkGoesOn(file: string): Promise<void> {
  const store = await openStore({ file });
  const database = new Database(file);
  try {
    expectSoundLogs(database);
    for (const worker of await store.loadWorkers()) await store.removeWorker(worker.id, "dead");
    await store.takeOverLost();
    const workerId = await store.registerWorker(identity, { version: "1", leaseMs: 60_000 });
    for (let row = await store.claim(workerId); row; row = await store.claim(workerId)) {
      await store.finish(claimOf(row), { ...failure, ...products, activeMs: 1 });
    }
    expectSoundLogs(database);
    expect(await store.hasWork(0)).toBe(false);
  } finally {
    database.close();
    await store.close();
  }
}
