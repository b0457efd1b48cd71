import { expect, test } from "vitest";
import type { RunGate } from "../../src/agent/admission.ts";
import type { RunRow } from "../../src/db/claim.ts";
import { nextOpening, openingHours } from "../../src/limits/hours.ts";
import type { ModelBinding } from "../../src/worker/model-binding.ts";
import { waitBeforeRun } from "../../src/worker/run-gate.ts";

const hours = openingHours({ allowedHours: "22:00-06:00 UTC", latestStart: "02:00" });
const night = "2026-01-10T";

/** What a run with this many messages waits for at this time. */
async function waitAt(time: string, seq: number) {
  const now = () => Date.parse(time);
  const { requests } = hours;
  const gate: RunGate = {
    gate: null,
    workerId: "w",
    fallbackModels: [],
    refusedBy: new Set<string>(),
    askedModel: "m",
    opensAt: () => (requests === null ? now() : nextOpening(requests, now())),
    now,
  };
  const binding: Pick<ModelBinding, "name" | "hours"> = { name: "m", hours };
  const row: Pick<RunRow, "seq"> = { seq };
  const ended = await waitBeforeRun(gate, { binding, row });
  return ended && new Date(ended.wait.wakeAt ?? 0).toISOString();
}

test("a run begins until the latest start and no later; one that has begun goes on until the hours end", async () => {
  expect(await waitAt(`${night}01:59:00.000Z`, 0)).toBeUndefined();
  expect(await waitAt(`${night}02:00:00.000Z`, 0)).toBe(`${night}22:00:00.000Z`);
  expect(await waitAt(`${night}05:59:00.000Z`, 3)).toBeUndefined();
  expect(await waitAt(`${night}06:00:00.000Z`, 3)).toBe(`${night}22:00:00.000Z`);
});
