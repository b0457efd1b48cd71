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
  const young = medianStep(times, shortHistory);
  const old = medianStep(times, longHistory);
  return [
    {
      name: "a step at history length 5,000 / one at 50",
      ratio: old / young,
      bound: { atMost: 1.2 },
      detail: `${old.toFixed(3)} against ${young.toFixed(3)} ms, medians of ${span}`,
    },
  ];
}

function medianStep(times: number[], from: number): number {
  const durations: number[] = [];
  for (let step = from; step < from + span - 1; step += 1)
    durations.push((times[step + 1] ?? 0) - (times[step] ?? 0));
  return durations.toSorted((a, b) => a - b)[Math.floor(durations.length / 2)] ?? 0;
}
