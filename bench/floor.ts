import type Database from "better-sqlite3";
import { openConnection } from "../src/db/open.ts";

/** What a step of the loop writes, as its rows come: a reply with one call, and the call's result. */
export const replyBody = JSON.stringify({
  role: "assistant",
  content: null,
  tool_calls: [{ id: "call_1", type: "function", function: { name: "noop", arguments: '{"text":""}' } }],
  finish_reason: "tool_calls",
});
export const resultBody = JSON.stringify({ role: "tool", tool_call_id: "call_1", content: "done" });

/** The rows that a step leaves, written by bare better-sqlite3 in one transaction, with nothing around it. */
export async function openFloor(file: string, runIds: string[]) {
  const { sqlite } = await openConnection(file);
  const statements = prepareFloor(sqlite);
  for (const id of runIds) statements.insertRun.run({ id, at: Date.now() });
  return {
    writeStep(run: string, step: number): void {
      const at = Date.now();
      const seq = step * 2;
      statements.begin.run();
      statements.updateRun.run({ run, seq: seq - 1, step });
      statements.insertMessage.run({
        run,
        seq: seq - 1,
        step,
        kind: "reply",
        ordinal: null,
        body: replyBody,
        at,
      });
      statements.insertModelCall.run({ run, n: step, step, at });
      statements.insertCall.run({ run, step, seq, at });
      statements.updateRun.run({ run, seq, step });
      statements.insertMessage.run({ run, seq, step, kind: "result", ordinal: 1, body: resultBody, at });
      statements.commit.run();
    },
    close: () => sqlite.close(),
  };
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
