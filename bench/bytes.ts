import { statSync } from "node:fs";
import path from "node:path";
import Database from "better-sqlite3";
import { openStore } from "../src/db/store.ts";
import { claimRuns, runThrough } from "./agents.ts";

const runs = 50;
const stepsPerRun = 100;
const payloadBytes = 4000;

/** Size of the file a step, write-ahead log folded in, against what a step has to keep. */
export async function measureBytes(folder: string) {
  const file = path.join(folder, "bytes.db");
  const store = await openStore({ file });
  const rows = await claimRuns(store, runs);
  const payload = "lorem ipsum ".repeat(payloadBytes / 12 + 1).slice(0, payloadBytes);
  await Promise.all(
    rows.map((row) => runThrough(store, row, { steps: stepsPerRun, payload, contextTokens: 128_000 })),
  );
  await store.close();
  const sqlite = new Database(file);
  sqlite.pragma("wal_checkpoint(TRUNCATE)");
  sqlite.close();
  const perStep = statSync(file).size / (runs * stepsPerRun);
  return [
    {
      name: "bytes a step in the file / payload",
      ratio: perStep / payloadBytes,
      bound: { atMost: 1.5 },
      detail: `${perStep.toFixed(0)} bytes for ${payloadBytes} of payload, ${runs} runs of ${stepsPerRun} steps`,
    },
  ];
}
