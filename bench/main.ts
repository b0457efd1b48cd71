import { mkdtemp, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { measureBytes } from "./bytes.ts";
import { measureClient } from "./client.ts";
import { measureHistory } from "./history.ts";
import { measureLatency } from "./latency.ts";
import { measureSnapshot } from "./snapshot.ts";
import { measureThroughput } from "./throughput.ts";

// Every figure is a ratio of two things measured in this run, so that it means the same on any machine.

interface Figure {
  name: string;
  ratio: number;
  /** The ratio is good if it is at least, or at most, this. */
  bound: { atLeast: number } | { atMost: number };
  detail: string;
}

const folder = await mkdtemp(path.join(os.tmpdir(), "pawl-bench-"));
try {
  const figures: Figure[] = [
    ...(await measureThroughput(folder)),
    ...(await measureLatency(folder)),
    await measureClient(folder),
    ...(await measureHistory(folder)),
    ...(await measureBytes(folder)),
    ...(await measureSnapshot(folder)),
  ];
  for (const { name, ratio, bound, detail } of figures) {
    const isGood = "atLeast" in bound ? ratio >= bound.atLeast : ratio <= bound.atMost;
    const wanted = "atLeast" in bound ? `at least ${bound.atLeast}` : `at most ${bound.atMost}`;
    console.log(
      `${isGood ? "ok  " : "MISS"}  ${ratio.toFixed(2).padStart(6)}  (${wanted})  ${name}: ${detail}`,
    );
    if (!isGood) process.exitCode = 1;
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}
