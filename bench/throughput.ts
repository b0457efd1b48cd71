import path from "node:path";
import { openStore, type Store } from "../src/db/store.ts";
import { claimRuns, runThrough } from "./agents.ts";
import { openFloor, replyBody, resultBody } from "./floor.ts";
import { median } from "./history.ts";

const concurrency = 50;
const stepsPerRun = 200;
/** Holds about twenty of the steps below. */
const contextTokens = 1500;

/** Each is measured so often, in turn with the floor; the median counts. */
const rounds = 3;

/** Steps a second at concurrency 50, against the same rows written by bare better-sqlite3, one commit a step. */
export async function measureThroughput(folder: string) {
  const measured: Round[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const fileOf = (name: string) => path.join(folder, `${name}-${round}.db`);
    measured.push({
      floor: await floorRate(fileOf("floor")),
      loop: await storeRate(fileOf("loop"), throughLoop("pure")),
      verbs: await storeRate(fileOf("verbs"), throughVerbs),
      unsafe: await storeRate(fileOf("unsafe"), throughLoop("unsafe")),
    });
  }
  const figure = (what: string, rateOf: (round: Round) => number, atLeast: number) => {
    const [rate, floor] = [median(measured.map(rateOf)), median(measured.map((round) => round.floor))];
    return {
      name: `${what} at concurrency ${concurrency} / the same rows, one commit a step`,
      ratio: median(measured.map((round) => rateOf(round) / round.floor)),
      bound: { atLeast },
      detail: `${rate.toFixed(0)} against ${floor.toFixed(0)} steps/s, medians of ${rounds}`,
    };
  };
  const largestWindow = Math.max(...measured.map((round) => round.loop.largestWindow));
  const loop = figure("steps through loop and store", (round) => round.loop.rate, 1);
  return [
    { ...loop, detail: `${loop.detail}, window of ${largestWindow} steps at the most` },
    figure("steps through the store's verbs alone", (round) => round.verbs.rate, 1.5),
    figure("steps with an unsafe call through loop and store", (round) => round.unsafe.rate, 0.6),
  ];
}

interface Round {
  floor: number;
  loop: StoreRate;
  verbs: StoreRate;
  unsafe: StoreRate;
}

type StoreRate = Awaited<ReturnType<typeof storeRate>>;
type Row = Awaited<ReturnType<typeof claimRuns>>[number];

async function storeRate(file: string, work: (store: Store, row: Row) => Promise<void>) {
  const store = await openStore({ file });
  const rows = await claimRuns(store, concurrency);
  const startedAt = performance.now();
  await Promise.all(rows.map((row) => work(store, row)));
  const seconds = (performance.now() - startedAt) / 1000;
  const largestWindow = await largestWindowOf(store, rows[0]?.id ?? "");
  await store.close();
  return { rate: (concurrency * stepsPerRun) / seconds, largestWindow };
}

function throughLoop(toolClass: "pure" | "unsafe") {
  return (store: Store, row: Row) => runThrough(store, row, { steps: stepsPerRun, contextTokens, toolClass });
}

/** What the loop hands to the store for a step, in the same order: the result of one step and the plan of the next together. */
async function throughVerbs(store: Store, row: Row): Promise<void> {
  const claim = { runId: row.id, workerId: row.ownerId ?? "", epoch: row.epoch };
  const usage = { promptTokens: null, completionTokens: null, cachedTokens: null, reasoningTokens: null };
  const call = { ordinal: 1, tool: "noop", class: "pure", wireId: "call_1" };
  let result: Promise<void> | undefined;
  for (let step = 1; step <= stepsPerRun; step += 1) {
    const plan = store.plan(claim, { n: step, step, purpose: "step", model: "scripted" }, 0);
    await Promise.all([result, plan]);
    const seq = step * 2 - 1;
    const settled = { n: step, usage, responseId: null };
    await store.appendReply(
      claim,
      { seq, step, kind: "reply", body: replyBody, tokens: 20 },
      { calls: [call], settled, activeMs: 0 },
    );
    result = store.appendResult(
      claim,
      { seq: seq + 1, step, kind: "result", ordinal: 1, body: resultBody, tokens: 20 },
      { state: "done", note: null, activeMs: 0 },
    );
  }
  await result;
}

/** The most steps between two compactions, with the four that one keeps. */
async function largestWindowOf(store: Store, runId: string): Promise<number> {
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

async function floorRate(file: string): Promise<number> {
  const runIds = Array.from({ length: concurrency }, (_, n) => `r${n}`);
  const floor = await openFloor(file, runIds);
  const startedAt = performance.now();
  for (let step = 1; step <= stepsPerRun; step += 1) for (const run of runIds) floor.writeStep(run, step);
  const seconds = (performance.now() - startedAt) / 1000;
  floor.close();
  return (concurrency * stepsPerRun) / seconds;
}
