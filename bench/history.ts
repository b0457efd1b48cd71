import path from "node:path";
import { openStore } from "../src/db/store.ts";
import { claimRuns, runThrough } from "./agents.ts";

const shortHistory = 50;
const longHistory = 5000;
/** Steps whose time is compared, from each of the two points on. */
const span = 500;
const contextTokens = 1500;

/** A step of a run with a long history against one of the same run when it was young: medians. */
export async function measureHistory(folder: string) {
  const store = await openStore({ file: path.join(folder, "history.db") });
  const [row] = await claimRuns(store, 1);
  if (!row) throw new Error("nothing to claim");
  const times: number[] = [];
  await runThrough(store, row, {
    steps: longHistory + span,
    contextTokens,
    onRequest: (step) => {
      times[step] = performance.now();
    },
  });
  await store.close();
  const young = medianGap(times.slice(shortHistory, shortHistory + span));
  const old = medianGap(times.slice(longHistory, longHistory + span));
  return [
    {
      name: "a step at history length 5,000 / one at 50",
      ratio: old / young,
      bound: { atMost: 1.2 },
      detail: `${old.toFixed(3)} against ${young.toFixed(3)} ms, medians of ${span}`,
    },
  ];
}

/** Between one time and the next: the median. */
export function medianGap(times: number[]): number {
  return median(times.slice(1).map((time, index) => time - (times[index] ?? time)));
}

export function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}
