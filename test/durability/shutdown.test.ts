import { describe, expect, test } from "vitest";
import { expectSoundLogs } from "../helpers/invariants.ts";
import { createScenario, markOf, type Scenario, type Story } from "../helpers/scenario.ts";
import { waitUntil } from "../helpers/wait-until.ts";

/** A shutdown ends within this, whatever the runs are doing. */
const shutdownMs = 10_000;

const longCommand: Story = (_key, done, run) => {
  if (done === 0) return { toolCalls: [run(1, "sleep 10; echo survived")] };
  return done === 1 ? { toolCalls: [run(2)] } : { content: "all done" };
};

async function runsLongCommand(scenario: Scenario): Promise<void> {
  await waitUntil(() => scenario.effects().length === 1, { timeoutMs: 20_000, what: "the command runs" });
}

describe("a worker that is told to stop in the middle of a long command", () => {
  test.each([
    { signal: "SIGTERM", code: 0 },
    { signal: "SIGINT", code: 130 },
  ] as const)(
    "ends within 10 s of $signal, and the command is adopted by the next worker, run once",
    async ({ signal, code }) => {
      const scenario = await createScenario(longCommand);
      await scenario.enqueue(["k"]);
      const first = scenario.worker({ args: [] });
      await runsLongCommand(scenario);
      const toldAt = Date.now();
      first.child.kill(signal);
      expect((await first.ended()).code).toBe(code);
      expect(Date.now() - toldAt).toBeLessThan(shutdownMs);
      const database = scenario.database();
      const row = database.prepare("SELECT status, strikes, owner_id FROM runs").get();
      expect(row, "resumable, and no strike").toEqual({ status: "queued", strikes: 0, owner_id: null });
      expect((await scenario.worker().ended()).code).toBe(0);
      expect((await scenario.json("show", "k"))[0]).toMatchObject({ status: "succeeded", epoch: 2 });
      expect(scenario.effects()).toEqual([markOf("k", 1), markOf("k", 2)]);
      const result = database
        .prepare("SELECT body FROM messages WHERE kind = 'result' ORDER BY seq")
        .get() as { body: string };
      expect(result.body, "its output arrives whole").toContain("survived");
      expectSoundLogs(database);
    },
  );

  test("leaves at once at the second Ctrl-C, and the run goes on elsewhere", async () => {
    const scenario = await createScenario(longCommand);
    await scenario.enqueue(["k"]);
    const first = scenario.worker({ args: [] });
    await runsLongCommand(scenario);
    first.child.kill("SIGINT");
    await first.says("stopping");
    const toldAt = Date.now();
    first.child.kill("SIGINT");
    expect((await first.ended()).code).toBe(130);
    expect(Date.now() - toldAt).toBeLessThan(2000);
    await scenario.worker().ended();
    expect((await scenario.json("show", "k"))[0]).toMatchObject({ status: "succeeded" });
    expect(scenario.effects()).toEqual([markOf("k", 1), markOf("k", 2)]);
  });
});

test("a worker that is told to stop while the model thinks gives the run back without asking again for what is committed", async () => {
  const scenario = await createScenario((_key, done, run) => {
    if (done === 0) return { toolCalls: [run(1)] };
    return { content: "all done", delayMs: 1000 };
  });
  await scenario.enqueue(["k"]);
  const first = scenario.worker({ args: [] });
  await waitUntil(() => scenario.server.requests.length === 2, {
    timeoutMs: 20_000,
    what: "the second request is open",
  });
  first.child.kill("SIGTERM");
  expect((await first.ended()).code).toBe(0);
  await scenario.worker().ended();
  expect((await scenario.json("show", "k"))[0]).toMatchObject({ status: "succeeded", result: "all done" });
  expect(scenario.server.requests.length, "the open request was waited for").toBe(2);
});

test("a worker killed right after it gave a run back loses nothing", async () => {
  const scenario = await createScenario(longCommand);
  await scenario.enqueue(["k"]);
  const first = scenario.worker({ args: [], env: { PAWL_FAILPOINT: "release.committed" } });
  await runsLongCommand(scenario);
  first.child.kill("SIGTERM");
  expect((await first.ended()).signal).toBe("SIGKILL");
  await scenario.worker().ended();
  expect((await scenario.json("show", "k"))[0]).toMatchObject({ status: "succeeded" });
  expect(scenario.effects()).toEqual([markOf("k", 1), markOf("k", 2)]);
});
