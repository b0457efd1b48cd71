import type Database from "better-sqlite3";
import { expect } from "vitest";
import { isSummaryRequest } from "./scenario.ts";

interface RunRow {
  id: string;
  key: string | null;
  status: string;
  seq: number;
  steps: number;
}
interface MessageRow {
  seq: number;
  epoch: number;
  kind: string;
  step: number;
  ordinal: number | null;
  body: string;
}
interface CallRow {
  step: number;
  ordinal: number;
  state: string;
  result_seq: number | null;
  provider_id: string;
}
interface ModelCallRow {
  n: number;
  step: number;
  purpose: string;
  state: string;
}

/** What must hold of every log, whatever happened to the workers: the invariants of ARCHITECTURE.md. */
export function expectSoundLogs(database: Database.Database): void {
  expect(database.pragma("integrity_check", { simple: true })).toBe("ok");
  for (const run of runsOf(database)) {
    const messages = ofRun<MessageRow>(database, run, "messages", "seq");
    expect(
      messages.map(({ seq }) => seq),
      "seq is dense",
    ).toEqual(messages.map((_, index) => index + 1));
    expect(run.seq).toBe(messages.length);
    expectNeverLess(
      messages.map(({ epoch }) => epoch),
      "epochs never decrease along the log",
    );
    expectAnsweredCalls(database, run, messages);
    expectOneAnswerAStep(ofRun<ModelCallRow>(database, run, "model_calls", "n"), run);
    const outcomes = ofRun<{ kind: string }>(database, run, "events", "id").filter(
      ({ kind }) => kind === "finished",
    );
    expect(outcomes.length, "one terminal outcome").toBe(isTerminal(run) ? 1 : 0);
    const replies = messages.filter(({ kind }) => kind === "reply");
    expect(
      replies.map(({ step }) => step),
      "a step a reply",
    ).toEqual(Array.from({ length: run.steps }, (_, index) => index + 1));
  }
}

/**
 * Every call has exactly one result, in the order asked, and it is that call's own: the mark that a command writes is in
 * its output. Only a run that was broken off may have calls without one.
 */
function expectAnsweredCalls(database: Database.Database, run: RunRow, messages: MessageRow[]): void {
  const calls = ofRun<CallRow>(database, run, "calls", "step, ordinal");
  const results = messages.filter(({ kind }) => kind === "result");
  const answered = calls.filter((call) => call.result_seq !== null);
  expect(results.map(({ step, ordinal, seq }) => ({ step, ordinal, result_seq: seq }))).toEqual(
    answered.map(({ step, ordinal, result_seq }) => ({ step, ordinal, result_seq })),
  );
  if (run.status === "succeeded") expect(answered.length).toBe(calls.length);
  for (const [index, call] of answered.entries()) {
    const result = JSON.parse(results[index]?.body ?? "{}") as {
      role?: string;
      tool_call_id?: string;
      content?: string;
    };
    // In the text protocols a result is a user message, and its place says whose it is.
    if (result.role !== "user") expect(result.tool_call_id).toBe(call.provider_id);
    expect(["done", "interrupted"]).toContain(call.state);
    const mark = /mark-\w+-\d+/.exec(argumentsOf(call, messages))?.[0];
    if (call.state === "done" && mark !== undefined) {
      expect(result.content, `the output of call ${call.step}.${call.ordinal}`).toContain(mark);
    }
  }
}

function argumentsOf(call: CallRow, messages: MessageRow[]): string {
  const reply = messages.find(({ kind, step }) => kind === "reply" && step === call.step);
  const { tool_calls: calls, content } = JSON.parse(reply?.body ?? "{}") as {
    tool_calls?: { function: { arguments: string } }[];
    content?: string | null;
  };
  return (calls ? calls[call.ordinal - 1]?.function.arguments : content) ?? "";
}

/** A step whose reply is committed is never asked for again; a request without reply says how it ended. */
function expectOneAnswerAStep(modelCalls: ModelCallRow[], run: RunRow): void {
  const steps = modelCalls.filter(({ purpose }) => purpose === "step");
  const done = steps.filter(({ state }) => state === "done").map(({ step }) => step);
  expect(done, "one answered request a step").toEqual([...new Set(done)]);
  expectNeverLess(
    steps.map(({ step }) => step),
    "no committed reply is asked for again",
  );
  expect(modelCalls.map(({ n }) => n)).toEqual(modelCalls.map((_, index) => index + 1));
  if (isTerminal(run)) {
    const open = modelCalls.slice(0, -1).filter(({ state }) => state === "sent");
    expect(open, "no request before the last is left open").toEqual([]);
  }
}

interface RequestBody {
  messages: { role: string; content?: unknown }[];
}

/**
 * What the model's server must have seen, whatever happened to the workers: no more requests than the log knows of; at
 * most `disturbances` of a run asked twice; and each one extends the one before byte for byte, or follows a compaction.
 * Tasks name their run as `KEY=<key>`.
 */
export function expectSoundRequests(
  database: Database.Database,
  requests: RequestBody[],
  disturbances: number,
): void {
  for (const run of runsOf(database)) {
    const ofKey = requests.filter(({ messages }) => keyOf(messages) === run.key);
    const modelCalls = ofRun<ModelCallRow>(database, run, "model_calls", "n");
    const unanswered = modelCalls.filter(({ state }) => state !== "done").length;
    expect(ofKey.length, "every request is in the log").toBeLessThanOrEqual(modelCalls.length);
    const bodies = ofKey.map(({ messages }) => JSON.stringify(messages));
    const repeated = bodies.length - new Set(bodies).size;
    expect(repeated, "only what died with its worker is asked again").toBeLessThanOrEqual(unanswered);
    expect(repeated, "at most one request a disturbance is repeated").toBeLessThanOrEqual(disturbances);
    const records = ofRun<{ body: string }>(database, run, "compactions", "n").map(({ body }) => body);
    expectExtending(
      ofKey.filter((request) => !isSummaryRequest(request)),
      records,
    );
  }
}

function expectExtending(requests: RequestBody[], records: string[]): void {
  let last: string[] = [];
  let used = 0;
  const seen = new Set<string>();
  for (const { messages } of requests) {
    const texts = messages.map((message) => JSON.stringify(message));
    // A worker that was stopped with a request half sent sends the rest when it wakes; repeats are counted above.
    const whole = texts.join();
    if (seen.has(whole)) continue;
    seen.add(whole);
    const isExtension = last.every((text, index) => texts[index] === text);
    if (!isExtension) {
      const task = String(messages[1]?.content);
      const at = records.findIndex((record, index) => index >= used && task.endsWith(record));
      expect(at, "a request that does not extend the one before follows a compaction").toBeGreaterThan(-1);
      used = at + 1;
    }
    last = texts;
  }
}

function keyOf(messages: RequestBody["messages"]): string | undefined {
  return /KEY=(\w+)/.exec(JSON.stringify(messages))?.[1];
}

function expectNeverLess(numbers: number[], what: string): void {
  expect(numbers, what).toEqual(numbers.toSorted((a, b) => a - b));
}

function runsOf(database: Database.Database): RunRow[] {
  return database.prepare("SELECT * FROM runs").all() as RunRow[];
}

function ofRun<Row>(database: Database.Database, run: RunRow, table: string, order: string): Row[] {
  return database.prepare(`SELECT * FROM ${table} WHERE run_id = ? ORDER BY ${order}`).all(run.id) as Row[];
}

function isTerminal(run: RunRow): boolean {
  return ["succeeded", "failed", "cancelled"].includes(run.status);
}
