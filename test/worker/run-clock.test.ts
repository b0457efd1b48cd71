import { expect, test } from "vitest";
import { RunAborted } from "../../src/abort.ts";
import { LeaseLostError } from "../../src/errors.ts";
import { startClock } from "../../src/worker/run-clock.ts";
import { waitUntil } from "../helpers/wait-until.ts";

async function reasonAfterLimit(confirmOwned: () => Promise<void>): Promise<unknown> {
  const controller = new AbortController();
  startClock({
    store: { now: () => 0, confirmOwned },
    claim: { runId: "r", workerId: "w", epoch: 1 },
    run: { spec: JSON.stringify({ timeLimitMs: 1 }), activeMs: 0 },
    controller,
  });
  await waitUntil(() => controller.signal.aborted, { timeoutMs: 5000, what: "the limit is reached" });
  return controller.signal.reason;
}

test("the time limit ends a run", async () => {
  const reason = await reasonAfterLimit(async () => {});
  expect(reason).toEqual(new RunAborted("time_limit"));
});

test("a worker that lost the run ends nothing of it at the time limit: its commands are the new owner's", async () => {
  const reason = await reasonAfterLimit(async () => {
    throw new LeaseLostError("lost");
  });
  expect(reason).toEqual(new RunAborted("lease_lost"));
});
