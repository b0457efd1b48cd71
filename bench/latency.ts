import path from "node:path";
import type { RunRow } from "../src/db/claim.ts";
import { openStore, type Store } from "../src/db/store.ts";
import { claimRuns, runThrough } from "./agents.ts";
import { openFloor } from "./floor.ts";
import { median, medianGap } from "./history.ts";

const steps = 2000;
/** Not counted: code is compiled, and the write-ahead log grows to its size. */
const warmUpSteps = 1000;
const contextTokens = 1500;
const shortHistory = 10;
const longHistory = 10_000;
/** Takeovers whose time is compared. */
const resumes = 15;
/** A resume may take this much longer with the long history, in milliseconds. */
const resumeToleranceMs = 50;

/** What a run that is alone pays for its checkpoints. */
export async function measureLatency(folder: string) {
  return [await measureSequential(folder), await measureResume(folder)];
}

/** A step of a run that is alone, next to one bare commit of the same rows: medians. */
async function measureSequential(folder: string) {
  const floor = await openFloor(path.join(folder, "sequential-floor.db"), ["r"]);
  const commits: number[] = [performance.now()];
  for (let step = 1; step <= warmUpSteps + steps; step += 1) {
    floor.writeStep("r", step);
    commits.push(performance.now());
  }
  floor.close();
  const store = await openStore({ file: path.join(folder, "sequential.db") });
  const [row] = await claimRuns(store, 1);
  if (!row) throw new Error("nothing to claim");
  const times: number[] = [];
  await runThrough(store, row, {
    steps: warmUpSteps + steps,
    contextTokens,
    onRequest: (step) => (times[step] = performance.now()),
  });
  await store.close();
  const step = medianGap(times.slice(warmUpSteps));
  const commit = medianGap(commits.slice(warmUpSteps));
  return {
    name: "time of a sequential step / one bare commit of its rows",
    ratio: step / commit,
    bound: { atMost: 3 },
    detail: `${step.toFixed(3)} against ${commit.toFixed(3)} ms, medians of ${steps}`,
  };
}

/** From the claim to the first model request: a run of 10,000 steps against one of 10. */
async function measureResume(folder: string) {
  const store = await openStore({ file: path.join(folder, "resume.db") });
  const young = await resumeMs(store, shortHistory);
  const old = await resumeMs(store, longHistory);
  await store.close();
  return {
    name: `resume at ${longHistory} steps / at ${shortHistory} steps and ${resumeToleranceMs} ms`,
    ratio: old / (young + resumeToleranceMs),
    bound: { atMost: 1 },
    detail: `${old.toFixed(1)} against ${young.toFixed(1)} ms to the first request, medians of ${resumes}`,
  };
}

async function resumeMs(store: Store, history: number): Promise<number> {
  const [first] = await claimRuns(store, 1);
  if (!first) throw new Error("nothing to claim");
  await runUntilAsked(store, first, history);
  const durations: number[] = [];
  for (let resume = 0; resume < resumes; resume += 1) {
    const startedAt = performance.now();
    const row = await store.claim(first.ownerId ?? "", { runId: first.id });
    if (!row) throw new Error("the run cannot be claimed again");
    durations.push((await runUntilAsked(store, row, 1)) - startedAt);
  }
  return median(durations);
}

/** Leaves the run after so many requests; gives the time of the first one. */
async function runUntilAsked(store: Store, row: RunRow, requests: number): Promise<number> {
  const asked: number[] = [];
  await runThrough(store, row, {
    steps: Number.POSITIVE_INFINITY,
    contextTokens,
    onRequest: () => asked.push(performance.now()),
    isStopping: () => asked.length >= requests,
  });
  return asked[0] ?? 0;
}
