import { existsSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { expectSoundLogs } from "../helpers/invariants.ts";
import { processesOf, runPawl } from "../helpers/pawl-process.ts";
import { createScenario, markOf, type Story } from "../helpers/scenario.ts";
import { waitUntil } from "../helpers/wait-until.ts";

const hour = "sleep 3600";
const forever: Story = (_key, done, run) =>
  done === 0
    ? { toolCalls: [run(1, "echo half > half.txt")] }
    : { toolCalls: [run(done + 1, `(trap '' TERM; ${hour}) & ${hour}`)] };

describe("cancel", () => {
  test("ends a run in the middle of a command within seconds, with everything it started, and keeps its work", async () => {
    const scenario = await createScenario(forever);
    await scenario.enqueue(["k"]);
    const worker = scenario.worker();
    await waitUntil(() => scenario.effects().length === 2, {
      timeoutMs: 20_000,
      what: "the long command runs",
    });
    const askedAt = Date.now();
    await scenario.json("cancel", "k");
    await worker.ended();
    expect(Date.now() - askedAt).toBeLessThan(8000);
    const [run] = await scenario.json("show", "k");
    expect(run).toMatchObject({
      status: "cancelled",
      reason: "cancelled",
      class: "cancelled",
      changedFiles: ["half.txt"],
    });
    expect(processesOf(path.join(scenario.folder, "data"))).toEqual([]);
    const patch = await runPawl(["export", "k", "--format", "patch"], {
      cwd: scenario.folder,
      env: scenario.env,
    });
    expect(patch.stdout).toContain("half.txt");
    expectSoundLogs(scenario.database());
  });

  test("ends a queued run at once, and a finished one stays as it is", async () => {
    const scenario = await createScenario(forever);
    await scenario.enqueue(["k"]);
    expect((await scenario.json("cancel", "k"))[0]).toMatchObject({ status: "cancelled", changed: true });
    expect((await scenario.json("cancel", "k"))[0]).toMatchObject({ status: "cancelled", changed: false });
    expect((await scenario.worker().ended()).code).toBe(0);
    expect(scenario.server.requests).toEqual([]);
  });

  test("reaches a run whose owner is dead", async () => {
    const scenario = await createScenario(forever);
    await scenario.enqueue(["k"]);
    const doomed = scenario.worker();
    await waitUntil(() => scenario.effects().length === 2, {
      timeoutMs: 20_000,
      what: "the long command runs",
    });
    doomed.child.kill("SIGKILL");
    await doomed.ended();
    await scenario.json("cancel", "k");
    expect((await scenario.worker().ended()).code).toBe(0);
    expect((await scenario.json("show", "k"))[0]).toMatchObject({ status: "cancelled" });
  });
});

test("a paused run waits, does not hold up a drain, and goes on when it is resumed", async () => {
  const scenario = await createScenario((_key, done, run) =>
    done < 3 ? { toolCalls: [run(done + 1, "sleep 0.5")] } : { content: "all done" },
  );
  await scenario.enqueue(["k"]);
  const worker = scenario.worker();
  await waitUntil(() => scenario.effects().length === 1, { timeoutMs: 20_000, what: "it runs" });
  await scenario.json("pause", "k");
  expect((await worker.ended()).code).toBe(0);
  expect((await scenario.json("show", "k"))[0]).toMatchObject({
    status: "waiting",
    waiting: { kind: "paused" },
  });
  await scenario.json("resume", "k");
  await scenario.worker().ended();
  expect((await scenario.json("show", "k"))[0]).toMatchObject({ status: "succeeded" });
  expect(scenario.effects()).toEqual([1, 2, 3].map((n) => markOf("k", n)));
});

test("a worker killed right after it let a paused run go loses nothing", async () => {
  const scenario = await createScenario((_key, done, run) =>
    done < 2 ? { toolCalls: [run(done + 1, "sleep 0.5")] } : { content: "all done" },
  );
  await scenario.enqueue(["k"]);
  const worker = scenario.worker({ env: { PAWL_FAILPOINT: "wait.committed" } });
  await waitUntil(() => scenario.effects().length === 1, { timeoutMs: 20_000, what: "it runs" });
  await scenario.json("pause", "k");
  expect((await worker.ended()).signal).toBe("SIGKILL");
  expect((await scenario.worker().ended()).code).toBe(0);
  expect((await scenario.json("show", "k"))[0]).toMatchObject({ status: "waiting", epoch: 1 });
  await scenario.json("resume", "k");
  await scenario.worker().ended();
  expect((await scenario.json("show", "k"))[0]).toMatchObject({ status: "succeeded", epoch: 2 });
  expect(scenario.effects()).toEqual([1, 2].map((n) => markOf("k", n)));
});

describe("limits", () => {
  test("the time limit ends a run in the middle of a command, active time of all owners counted", async () => {
    const scenario = await createScenario((_key, done, run) =>
      done < 2 ? { toolCalls: [run(done + 1, "sleep 1.5")] } : { toolCalls: [run(done + 1, hour)] },
    );
    await scenario.enqueue(["k"], ["--time-limit-ms", "4000"]);
    const first = scenario.worker({ env: { PAWL_FAILPOINT: "plan.committed:2" } });
    expect((await first.ended()).signal).toBe("SIGKILL");
    const startedAt = Date.now();
    await scenario.worker().ended();
    const [run] = await scenario.json("show", "k");
    expect(run).toMatchObject({ status: "failed", reason: "time_limit", class: "limit" });
    expect(run?.error).toMatch(/time limit.*retry/s);
    expect(Date.now() - startedAt, "the first owner's time counted").toBeLessThan(4000 + 2500);
    expect(existsSync(path.join(scenario.folder, "data"))).toBe(true);
    expectSoundLogs(scenario.database());
  });

  test("the limit of steps counts across a kill", async () => {
    const scenario = await createScenario((_key, done, run) => ({ toolCalls: [run(done + 1)] }));
    await scenario.enqueue(["k"], ["--max-steps", "4"]);
    await scenario.worker({ env: { PAWL_FAILPOINT: "command.finished:3" } }).ended();
    await scenario.worker().ended();
    expect((await scenario.json("show", "k"))[0]).toMatchObject({
      reason: "step_limit",
      steps: 4,
      maxSteps: 4,
    });
    expect(scenario.effects().length).toBe(4);
  });
});
