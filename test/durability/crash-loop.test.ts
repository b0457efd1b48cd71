import { existsSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { expectSoundLogs } from "../helpers/invariants.ts";
import { processesOf } from "../helpers/pawl-process.ts";
import { createScenario, markOf, type Story } from "../helpers/scenario.ts";
import { waitUntil } from "../helpers/wait-until.ts";

const story: Story = (key, done, run) => {
  // Kills the worker that asks: the request is answered only once it is dead.
  if (key === "poison") return { delayMs: 3000, content: "too late" };
  return done < 2 ? { toolCalls: [run(done + 1, "sleep 0.2")] } : { content: "all done" };
};

test("a run that kills its workers is tried alone, then ended as crash_loop, and disturbs no other", async () => {
  const scenario = await createScenario(story);
  await scenario.enqueue(["poison", "a", "b", "c"]);
  const database = scenario.database();
  const asked = database.prepare(
    "SELECT 1 FROM model_calls JOIN runs ON runs.id = run_id WHERE key = 'poison' AND state = 'sent' AND model_calls.epoch = ?",
  );
  for (const epoch of [1, 2, 3]) {
    const worker = scenario.worker();
    await waitUntil(() => asked.get(epoch) !== undefined, {
      timeoutMs: 20_000,
      what: `it is tried for the ${epoch}. time`,
    });
    if (epoch === 3) {
      const running = database.prepare("SELECT key FROM runs WHERE status = 'running'").all();
      expect(running, "it has its worker for itself").toEqual([{ key: "poison" }]);
    }
    worker.child.kill("SIGKILL");
    await worker.ended();
  }
  expect((await scenario.worker().ended()).code).toBe(0);
  expect((await scenario.json("show", "poison"))[0]).toMatchObject({
    status: "failed",
    reason: "crash_loop",
    class: "infra",
  });
  const others = database.prepare("SELECT DISTINCT status FROM runs WHERE key <> 'poison'").all();
  expect(others).toEqual([{ status: "succeeded" }]);
  expect(scenario.effects().toSorted()).toEqual(
    ["a", "b", "c"].flatMap((key) => [markOf(key, 1), markOf(key, 2)]),
  );
  expectSoundLogs(database);
});

test("a run that ends as crash_loop leaves no command behind, and what it had done is kept", async () => {
  const scenario = await createScenario((_key, _done, run) => ({
    toolCalls: [run(1, "echo half > half.txt; sleep 3600")],
  }));
  await scenario.enqueue(["k"]);
  const database = scenario.database();
  const started = database.prepare("SELECT 1 FROM runs WHERE status = 'running' AND epoch = ?");
  const id = String((await scenario.json("list"))[0]?.id);
  const halfFile = path.join(scenario.folder, "data", "workspaces", id, "half.txt");
  for (const epoch of [1, 2, 3, 4]) {
    const worker = scenario.worker();
    await worker.says("sleep 3600");
    expect(started.get(epoch), `try ${epoch}`).toBeDefined();
    // It says so before it starts the command.
    await waitUntil(() => existsSync(halfFile), {
      timeoutMs: 20_000,
      what: "the command is half done",
    });
    worker.child.kill("SIGKILL");
    await worker.ended();
  }
  expect((await scenario.worker().ended()).code).toBe(0);
  expect((await scenario.json("show", "k"))[0]).toMatchObject({
    status: "failed",
    reason: "crash_loop",
    changedFiles: ["half.txt"],
    error: expect.stringContaining("pawl retry"),
  });
  expect(processesOf(path.join(scenario.folder, "data"))).toEqual([]);
  expect(scenario.effects()).toEqual([markOf("k", 1)]);
  expectSoundLogs(database);
});
