import { expect, test } from "vitest";
import { expectSoundLogs } from "../helpers/invariants.ts";
import { createScenario, markOf, type Story } from "../helpers/scenario.ts";
import { waitUntil } from "../helpers/wait-until.ts";

const leaseMs = "1000";

/** A quick command, a long one, a quick one. */
const story: Story = (_key, done, run) => {
  const next = done + 1;
  if (next === 2) return { toolCalls: [run(2, "sleep 4")] };
  return next <= 3 ? { toolCalls: [run(next)] } : { content: "all done" };
};

test("a worker stopped beyond its lease writes nothing when it wakes, touches no command, and works on under a new id", async () => {
  const scenario = await createScenario(story, { env: { PAWL_LEASE_MS: leaseMs } });
  await scenario.enqueue(["k"]);
  const stale = scenario.worker({ args: [] });
  await waitUntil(() => scenario.effects().includes(markOf("k", 2)), {
    timeoutMs: 20_000,
    what: "the long command runs",
  });
  await stale.stopOutsideOfWrites(scenario.database());
  const fresh = scenario.worker({ args: [] });
  await fresh.says("goes on after step 2");
  process.kill(stale.pid, "SIGCONT");
  await stale.says("lease has run out");
  const database = scenario.database();
  const read = () =>
    database.prepare("SELECT status, epoch, strikes FROM runs").get() as { status: string; epoch: number };
  await waitUntil(() => read().status === "succeeded", { timeoutMs: 20_000, what: "the run ends" });
  expect(read()).toMatchObject({ status: "succeeded", epoch: 2 });
  expect(scenario.effects(), "the new owner adopted the command").toEqual(
    [1, 2, 3].map((n) => markOf("k", n)),
  );
  expectSoundLogs(database);
  const late = database
    .prepare(
      "SELECT count(*) AS n FROM messages WHERE epoch = 1 AND seq > (SELECT min(seq) FROM messages WHERE epoch = 2)",
    )
    .get() as { n: number };
  expect(late.n, "no write of the old epoch after one of the new").toBe(0);
  // The stale worker registered anew and takes the next task when it is alone.
  fresh.child.kill("SIGTERM");
  await fresh.ended();
  await scenario.enqueue(["again"]);
  const status = () =>
    database.prepare("SELECT status FROM runs WHERE key = 'again'").get() as { status: string } | undefined;
  await waitUntil(() => status()?.status === "succeeded", {
    timeoutMs: 20_000,
    what: "the stale worker works on",
  });
  stale.child.kill("SIGTERM");
  await stale.ended();
});
