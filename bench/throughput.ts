import path from "node:path";
import type Database from "better-sqlite3";
import { openConnection } from "../src/db/open.ts";
import { openStore } from "../src/db/store.ts";
import { claimRuns, runThrough } from "./agents.ts";

const concurrency = 50;
const stepsPerRun = 200;
/** Holds about twenty of the steps below. */
const contextTokens = 1500;

/** Steps a second through loop and store, against the same rows written by bare better-sqlite3, one commit a step. */
export async function measureThroughput(folder: string) {
  const loop = await loopStepsPerSecond(path.join(folder, "loop.db"));
  const floor = await floorStepsPerSecond(path.join(folder, "floor.db"));
  return [
    {
      name: "steps through loop and store at concurrency 50 / the same rows, one commit a step",
      ratio: loop.rate / floor,
      bound: { atLeast: 0.5 },
      detail: `${loop.rate.toFixed(0)} against ${floor.toFixed(0)} steps/s, window of ${loop.largestWindow} steps at the most`,
    },
  ];
}

async function loopStepsPerSecond(file: string): Promise<{ rate: number; largestWindow: number }> {
  const store = await openStore({ file });
  const rows = await claimRuns(store, concurrency);
  const startedAt = performance.now();
  await Promise.all(rows.map((row) => runThrough(store, row, { steps: stepsPerRun, contextTokens })));
  const seconds = (performance.now() - startedAt) / 1000;
  const largestWindow = await largestWindowOf(store, rows[0]?.id ?? "");
  await store.close();
  return { rate: (concurrency * stepsPerRun) / seconds, largestWindow };
}

/** The most steps between two compactions, with the four that one keeps. */
async function largestWindowOf(store: Awaited<ReturnType<typeof openStore>>, runId: string): Promise<number> {
  const compactions = await store.loadCompactions(runId);
  const messages = await store.loadMessages(runId);
  const stepAt = (at: number) => messages.findLast((message) => message.at <= at)?.step ?? 0;
  let largest = 0;
  let cutStep = 0;
  for (const compaction of compactions) {
    largest = Math.max(largest, stepAt(compaction.at) - cutStep);
    cutStep = messages.find((message) => message.seq === compaction.throughSeq)?.step ?? 0;
  }
  return largest;
}

/** The rows that a step leaves, in one transaction, with nothing around it. */
async function floorStepsPerSecond(file: string): Promise<number> {
  const { sqlite } = await openConnection(file);
  const statements = prepareFloor(sqlite);
  const runIds = Array.from({ length: concurrency }, (_, n) => `r${n}`);
  for (const id of runIds) statements.insertRun.run({ id, at: Date.now() });
  const reply = JSON.stringify({
    role: "assistant",
    content: null,
    tool_calls: [{ id: "call_1", type: "function", function: { name: "noop", arguments: '{"text":""}' } }],
    finish_reason: "tool_calls",
  });
  const result = JSON.stringify({ role: "tool", tool_call_id: "call_1", content: "done" });
  const startedAt = performance.now();
  for (let step = 1; step <= stepsPerRun; step += 1) {
    for (const run of runIds) {
      const at = Date.now();
      statements.begin.run();
      statements.updateRun.run({ run, seq: step * 2 - 1, step });
      statements.insertMessage.run({
        run,
        seq: step * 2 - 1,
        step,
        kind: "reply",
        ordinal: null,
        body: reply,
        at,
      });
      statements.insertModelCall.run({ run, n: step, step, at });
      statements.insertCall.run({ run, step, seq: step * 2, at });
      statements.updateRun.run({ run, seq: step * 2, step });
      statements.insertMessage.run({
        run,
        seq: step * 2,
        step,
        kind: "result",
        ordinal: 1,
        body: result,
        at,
      });
      statements.commit.run();
    }
  }
  const seconds = (performance.now() - startedAt) / 1000;
  sqlite.close();
  return (concurrency * stepsPerRun) / seconds;
}

function prepareFloor(sqlite: Database.Database) {
  return {
    begin: sqlite.prepare("BEGIN IMMEDIATE"),
    commit: sqlite.prepare("COMMIT"),
    insertRun: sqlite.prepare(
      "INSERT INTO runs (id, batch_id, spec, spec_hash, status, epoch, created_at) VALUES (@id, 'b0', '{}', '', 'running', 1, @at)",
    ),
    updateRun: sqlite.prepare("UPDATE runs SET seq = @seq, steps = @step WHERE id = @run"),
    insertMessage: sqlite.prepare(
      "INSERT INTO messages (run_id, seq, step, epoch, kind, ordinal, body, tokens, at) VALUES (@run, @seq, @step, 1, @kind, @ordinal, @body, 20, @at)",
    ),
    insertModelCall: sqlite.prepare(
      "INSERT INTO model_calls (run_id, n, step, epoch, purpose, model, state, started_at, ended_at) VALUES (@run, @n, @step, 1, 'step', 'scripted', 'done', @at, @at)",
    ),
    insertCall: sqlite.prepare(
      "INSERT INTO calls (run_id, step, ordinal, epoch, origin, tool, class, state, provider_id, result_seq, ended_at) VALUES (@run, @step, 1, 1, 'model', 'noop', 'pure', 'done', 'call_1', @seq, @at)",
    ),
  };
}
