import { writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { expectSoundLogs } from "../helpers/invariants.ts";
import { createScenario, markOf, type Scenario, type Story } from "../helpers/scenario.ts";
import { waitUntil } from "../helpers/wait-until.ts";

const twoCommands: Story = (_key, done, run) =>
  done < 2 ? { toolCalls: [run(done + 1, done === 0 ? "sleep 0.5" : "true")] } : { content: "all done" };
const oneCommand: Story = (_key, done, run) => (done < 1 ? { toolCalls: [run(1)] } : { content: "all done" });

test("a killed worker's runs go on within 2 s with another worker that is alive", async () => {
  const untilGo = "until [ -e ../../../go ]; do sleep 0.1; done";
  const scenario = await createScenario((_key, done, run) =>
    done < 2 ? { toolCalls: [run(done + 1, done === 0 ? untilGo : "true")] } : { content: "all done" },
  );
  await scenario.enqueue(["a", "b", "c"]);
  const doomed = scenario.worker({ args: ["--concurrency", "3"] });
  await waitUntil(() => scenario.effects().length >= 3, { timeoutMs: 20_000, what: "all three run" });
  const idle = scenario.worker({ args: ["--drain", "--concurrency", "3"] });
  await idle.says("takes up to 3 runs");
  const killedAt = Date.now();
  doomed.child.kill("SIGKILL");
  await doomed.ended();
  writeFileSync(path.join(scenario.folder, "go"), "");
  await idle.ended();
  const database = scenario.database();
  expect(longestWait(scenario, killedAt)).toBeLessThan(2000);
  expect(scenario.effects().toSorted()).toEqual(
    ["a", "b", "c"].flatMap((key) => [markOf(key, 1), markOf(key, 2)]),
  );
  expectSoundLogs(database);
});

test("the runs of a worker that died alone go on at once with the next one that starts", async () => {
  const scenario = await createScenario(twoCommands);
  await scenario.enqueue(["a", "b"]);
  const doomed = scenario.worker({
    args: ["--concurrency", "2"],
    env: { PAWL_FAILPOINT: "plan.committed:3" },
  });
  await doomed.ended();
  await scenario.worker().ended();
  const next = scenario.database().prepare("SELECT max(started_at) AS at FROM workers").get() as {
    at: number;
  };
  expect(longestWait(scenario, next.at)).toBeLessThan(500);
});

/** Until the last run that was taken over was claimed again. */
function longestWait(scenario: Scenario, sinceAt: number): number {
  const claims = scenario
    .database()
    .prepare("SELECT at FROM events WHERE kind = 'claimed' AND epoch = 2 ORDER BY at")
    .all() as { at: number }[];
  expect(claims.length, "runs were taken over").toBeGreaterThan(0);
  return Math.max(...claims.map(({ at }) => at)) - sinceAt;
}

test("a new task is picked up within 200 ms by an idle worker in another process", async () => {
  const scenario = await createScenario(oneCommand);
  await scenario.enqueue(["first"]);
  const worker = scenario.worker({ args: [] });
  const database = () => scenario.database();
  const ended = (key: string) =>
    waitUntil(
      () =>
        (database().prepare("SELECT status FROM runs WHERE key = ?").get(key) as { status: string })
          .status === "succeeded",
      { timeoutMs: 20_000, what: `${key} ends` },
    );
  await ended("first");
  for (const key of ["b", "c", "d", "e", "f"]) {
    await scenario.enqueue([key]);
    await ended(key);
  }
  const waits = database()
    .prepare("SELECT started_at - created_at AS ms FROM runs WHERE key <> 'first' ORDER BY ms")
    .all() as { ms: number }[];
  expect(waits[2]?.ms, "the median of five").toBeLessThan(200);
  worker.child.kill("SIGTERM");
  await worker.ended();
});

test("several processes at once on one database: every run is done exactly once", async () => {
  const scenario = await createScenario(oneCommand);
  const keys = Array.from({ length: 24 }, (_, index) => `r${index}`);
  await scenario.enqueue(keys);
  const workers = [1, 2, 3].map(() => scenario.worker({ args: ["--drain", "--concurrency", "4"] }));
  for (const worker of workers) expect((await worker.ended(60_000)).code).toBe(0);
  expect(scenario.effects().toSorted()).toEqual(keys.map((key) => markOf(key, 1)).toSorted());
  const database = scenario.database();
  expect(database.prepare("SELECT DISTINCT status, epoch FROM runs").all()).toEqual([
    { status: "succeeded", epoch: 1 },
  ]);
  const owners = database
    .prepare("SELECT count(DISTINCT worker_id) AS n FROM events WHERE kind = 'claimed'")
    .get() as { n: number };
  expect(owners.n, "the work was shared").toBeGreaterThan(1);
  expectSoundLogs(database);
});

test("several producers with the same keys at once make each run once", async () => {
  const scenario = await createScenario(oneCommand);
  const keys = ["a:b:c", "123", "K1", "k1", "ä/ü 1"];
  const lines = keys.map((key) => JSON.stringify({ prompt: "Do the work.", key }));
  writeFileSync(path.join(scenario.folder, "tasks.jsonl"), lines.join("\n"));
  const answers = await Promise.all([1, 2, 3].map(() => scenario.json("enqueue", "--file", "tasks.jsonl")));
  for (const [index, key] of keys.entries()) {
    const rows = answers.map((answer) => answer[index]);
    expect(new Set(rows.map((row) => row?.id)).size, key).toBe(1);
    expect(rows.filter((row) => row?.created === true).length, `${key} is created once`).toBe(1);
  }
  expect(scenario.database().prepare("SELECT count(*) AS n FROM runs").get()).toEqual({ n: keys.length });
});
