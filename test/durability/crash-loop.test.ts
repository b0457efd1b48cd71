import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { expectSoundLogs } from "../helpers/invariants.ts";
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

test("what a run that ends as crash_loop had done is kept", async () => {
  const scenario = await createScenario((_key, done, run) =>
    done === 0 ? { toolCalls: [run(1, "echo half > half.txt")] } : { delayMs: 3000, content: "too late" },
  );
  await scenario.enqueue(["k"]);
  const database = scenario.database();
  const asked = database.prepare("SELECT 1 FROM model_calls WHERE step = 2 AND state = 'sent' AND epoch = ?");
  // The first one made a step, which is no strike.
  for (const epoch of [1, 2, 3, 4]) {
    const worker = scenario.worker();
    await waitUntil(() => asked.get(epoch) !== undefined, { timeoutMs: 20_000, what: `try ${epoch}` });
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
  expect(scenario.effects()).toEqual([markOf("k", 1)]);
  expectSoundLogs(database);
});

test("a run that is tried alone shares its worker again once it has made a step", async () => {
  let isTame = false;
  const scenario = await createScenario((key, done, run) => {
    if (key !== "wild") return done < 1 ? { toolCalls: [run(1)] } : { content: "all done" };
    if (!isTame) return { delayMs: 3000, content: "too late" };
    return done < 1
      ? { toolCalls: [run(1, "until [ -e ../../../go ]; do sleep 0.1; done")] }
      : { content: "all done" };
  });
  await scenario.enqueue(["wild"]);
  const database = scenario.database();
  const asked = database.prepare("SELECT 1 FROM model_calls WHERE state = 'sent' AND epoch = ?");
  for (const epoch of [1, 2]) {
    const worker = scenario.worker();
    await waitUntil(() => asked.get(epoch) !== undefined, { timeoutMs: 20_000, what: `try ${epoch}` });
    worker.child.kill("SIGKILL");
    await worker.ended();
  }
  isTame = true;
  const worker = scenario.worker();
  await waitUntil(() => scenario.effects().length === 1, { timeoutMs: 20_000, what: "it makes a step" });
  await scenario.enqueue(["a", "b"]);
  await waitUntil(() => scenario.effects().length === 3, { timeoutMs: 20_000, what: "others run beside it" });
  expect((await scenario.json("show", "wild"))[0]).toMatchObject({ status: "running", epoch: 3 });
  writeFileSync(path.join(scenario.folder, "go"), "");
  expect((await worker.ended()).code).toBe(0);
  expectSoundLogs(database);
});

test("a long command survives any number of killed workers, and its output arrives whole, run once", async () => {
  const scenario = await createScenario((_key, done, run) =>
    done === 0
      ? { toolCalls: [run(1, "until [ -e ../../../go ]; do sleep 0.1; done; echo the end")] }
      : { content: "all done" },
  );
  await scenario.enqueue(["k"]);
  const database = scenario.database();
  const claimed = database.prepare("SELECT 1 FROM runs WHERE status = 'running' AND epoch = ?");
  const kills = 6;
  for (let epoch = 1; epoch <= kills; epoch += 1) {
    const worker = scenario.worker();
    const isOn = () => claimed.get(epoch) !== undefined && scenario.effects().length === 1;
    await waitUntil(isOn, { timeoutMs: 20_000, what: `worker ${epoch} has the run` });
    // Some before they found the command, some after.
    if (epoch % 2 === 1) await worker.says(markOf("k", 1));
    worker.child.kill("SIGKILL");
    await worker.ended();
  }
  writeFileSync(path.join(scenario.folder, "go"), "");
  expect((await scenario.worker().ended()).code).toBe(0);
  expect((await scenario.json("show", "k"))[0]).toMatchObject({ status: "succeeded", epoch: kills + 1 });
  expect(scenario.effects()).toEqual([markOf("k", 1)]);
  const result = database.prepare("SELECT body FROM messages WHERE kind = 'result'").get() as {
    body: string;
  };
  expect(JSON.parse(result.body).content).toContain(`${markOf("k", 1)}\nthe end`);
  expectSoundLogs(database);
});

test("a command of a minute survives three killed workers, and its output arrives whole, run once", {
  timeout: 150_000,
}, async () => {
  const seconds = 60;
  const scenario = await createScenario((_key, done, run) =>
    done === 0
      ? { toolCalls: [run(1, `for n in $(seq ${seconds}); do echo "second $n"; sleep 1; done`)] }
      : { content: "all done" },
  );
  await scenario.enqueue(["k"]);
  const id = String((await scenario.json("list"))[0]?.id);
  const outputs = path.join(scenario.folder, "data", "runs", id, "outputs");
  const hasSaid = (line: string) =>
    existsSync(outputs) &&
    readdirSync(outputs).some((file) => readFileSync(path.join(outputs, file), "utf8").includes(line));
  for (const second of [5, 20, 40]) {
    const worker = scenario.worker();
    await waitUntil(() => hasSaid(`second ${second}\n`), { timeoutMs: 60_000, what: `second ${second}` });
    worker.child.kill("SIGKILL");
    await worker.ended();
  }
  expect((await scenario.worker().ended(60_000)).code).toBe(0);
  expect((await scenario.json("show", "k"))[0]).toMatchObject({ status: "succeeded", epoch: 4 });
  const { body } = scenario.database().prepare("SELECT body FROM messages WHERE kind = 'result'").get() as {
    body: string;
  };
  const lines = Array.from({ length: seconds }, (_, n) => `second ${n + 1}`);
  expect(JSON.parse(body).content).toContain([markOf("k", 1), ...lines].join("\n"));
  expect(scenario.effects()).toEqual([markOf("k", 1)]);
});
