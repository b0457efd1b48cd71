import type Database from "better-sqlite3";
import { expect } from "vitest";

interface Row {
  run_id: string;
  seq: number;
  epoch: number;
  kind: string;
}

/** What must hold of every log, whatever happened to the workers: the invariants of ARCHITECTURE.md. */
export function expectSoundLogs(database: Database.Database): void {
  expect(database.pragma("integrity_check", { simple: true })).toBe("ok");
  const runs = database.prepare("SELECT * FROM runs").all() as {
    id: string;
    status: string;
    seq: number;
    steps: number;
  }[];
  for (const run of runs) {
    const messages = database
      .prepare("SELECT * FROM messages WHERE run_id = ? ORDER BY seq")
      .all(run.id) as Row[];
    expect(
      messages.map(({ seq }) => seq),
      "seq is dense",
    ).toEqual(messages.map((_, index) => index + 1));
    expect(run.seq).toBe(messages.length);
    const epochs = messages.map(({ epoch }) => epoch);
    expect(epochs, "epochs never decrease along the log").toEqual(epochs.toSorted((a, b) => a - b));
    expectAnsweredCalls(database, run);
    const outcomes = database
      .prepare("SELECT count(*) AS n FROM events WHERE run_id = ? AND kind = 'finished'")
      .get(run.id) as { n: number };
    expect(outcomes.n, "one terminal outcome").toBe(
      ["succeeded", "failed", "cancelled"].includes(run.status) ? 1 : 0,
    );
    const replies = messages.filter(({ kind }) => kind === "reply").length;
    expect(replies, "a step a reply").toBe(run.steps);
  }
}

/** Every call has exactly one result, in the order asked. */
function expectAnsweredCalls(database: Database.Database, run: { id: string; status: string }): void {
  const calls = database
    .prepare("SELECT step, ordinal, state, result_seq FROM calls WHERE run_id = ? ORDER BY step, ordinal")
    .all(run.id) as { step: number; ordinal: number; state: string; result_seq: number | null }[];
  const results = database
    .prepare("SELECT step, ordinal, seq FROM messages WHERE run_id = ? AND kind = 'result' ORDER BY seq")
    .all(run.id) as { step: number; ordinal: number; seq: number }[];
  const answered = calls.filter((call) => call.result_seq !== null);
  expect(results).toEqual(answered.map(({ step, ordinal, result_seq: seq }) => ({ step, ordinal, seq })));
  if (run.status === "succeeded") expect(answered.length).toBe(calls.length);
}

interface RequestBody {
  messages: unknown[];
  tools?: unknown;
}

/** Each request of a run extends the one before byte for byte, or repeats it; where it does not, a compaction lies between. */
export function countBrokenPrefixes(requests: RequestBody[]): number {
  let broken = 0;
  let last: string[] = [];
  for (const { messages } of requests.filter((request) => request.tools)) {
    const texts = messages.map((message) => JSON.stringify(message));
    if (!last.every((text, index) => texts[index] === text)) broken += 1;
    last = texts;
  }
  return broken;
}

/** Requests that were sent more than once, compared whole. */
export function countRepeated(requests: RequestBody[]): number {
  const bodies = requests.map((request) => JSON.stringify(request.messages));
  return bodies.length - new Set(bodies).size;
}
