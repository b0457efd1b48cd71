import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { failpoints } from "../../src/failpoint.ts";
import { countBrokenPrefixes, countRepeated, expectSoundLogs } from "../helpers/invariants.ts";
import { runPawl } from "../helpers/pawl-process.ts";
import { createScenario, markOf, type Scenario, type Story } from "../helpers/scenario.ts";

// The sweep: a worker is killed with SIGKILL at each failpoint by name, another goes on, and the run must look as if
// nothing had happened.

const marks = 12;
/** Small, so that the history is summarised twice on the way. */
const config = { contextTokens: 3600, maxOutputTokens: 500 };

/** Every kind of call: read-only neighbours, files, several commands in one reply, long outputs. */
const story: Story = (_key, done, run) => {
  const next = done + 1;
  if (next === 2) return { toolCalls: [readFile, readFile, run(2), run(3)] };
  if (next === 4) return { toolCalls: [writeFile, editFile, run(4)] };
  if (next <= marks) return { toolCalls: [run(next, "seq 1 300")] };
  return { content: "all done" };
};
const readFile = { name: "read_file", arguments: { path: "a.txt" } };
const writeFile = { name: "write_file", arguments: { path: "new/b.txt", content: "b" } };
const editFile = { name: "edit_file", arguments: { path: "a.txt", oldText: "one", newText: "two" } };

/** Points that a worker passes, each also at a later pass where there is one. */
const sweep: string[] = [
  "worker.registered",
  "claim.committed",
  "workspace.prepared",
  "begin.committed",
  "task.committed",
  ...[
    "plan.committed",
    "model.answered",
    "reply.committed",
    "call.started",
    "command.started",
    "command.finished",
    "call.finished",
  ].flatMap((name) => [name, `${name}:3`, `${name}:5`]),
  "summary.answered",
  "compaction.committed",
  "compaction.committed:2",
  "finish.prepared",
  "finish.committed",
];
/** Points of other processes, with tests of their own. */
const elsewhere = ["enqueue.committed", "release.committed"];

test("every failpoint is swept", () => {
  const swept = new Set([...sweep.map((point) => point.split(":")[0]), ...elsewhere]);
  expect([...failpoints].filter((name) => !swept.has(name))).toEqual([]);
  expect(
    [...swept].filter((name) => !(failpoints as readonly (string | undefined)[]).includes(name)),
  ).toEqual([]);
});

describe("a worker killed", () => {
  test.each(sweep)("at %s: nothing is lost, nothing is done twice", async (point) => {
    const scenario = await createScenario(story, { config });
    await scenario.enqueue(["k"]);
    const first = await scenario.worker({ env: { PAWL_FAILPOINT: point } }).ended();
    expect(first.signal, "it is killed at the failpoint").toBe("SIGKILL");
    const second = await scenario.worker().ended();
    expect(second.code).toBe(0);
    await expectUndisturbed(scenario);
    expect(countRepeated(scenario.server.requests)).toBeLessThanOrEqual(1);
  });
});

test("a worker killed again and again gets there", async () => {
  const scenario = await createScenario(story, { config });
  await scenario.enqueue(["k"]);
  for (const point of [
    "model.answered:2",
    "command.started:2",
    "call.finished",
    "summary.answered",
    "plan.committed:2",
  ]) {
    const { signal } = await scenario.worker({ env: { PAWL_FAILPOINT: point } }).ended();
    expect(signal).toBe("SIGKILL");
  }
  await scenario.worker().ended();
  await expectUndisturbed(scenario);
  expect(countRepeated(scenario.server.requests)).toBeLessThanOrEqual(5);
});

test("a producer killed after its commit has enqueued, and a worker finds the task without a hint", async () => {
  const scenario = await createScenario(story, { config });
  const at = { cwd: scenario.folder, env: { ...scenario.env, PAWL_FAILPOINT: "enqueue.committed" } };
  const args = ["enqueue", "Do the work of KEY=k.", "--key", "k", "--repo", scenario.repo];
  expect((await runPawl(args, at)).signal).toBe("SIGKILL");
  expect((await scenario.json("enqueue", ...args.slice(1)))[0]).toMatchObject({ key: "k", created: false });
  await scenario.worker().ended();
  await expectUndisturbed(scenario);
});

async function expectUndisturbed(scenario: Scenario): Promise<void> {
  const [run] = await scenario.json("show", "k");
  expect(run).toMatchObject({ status: "succeeded", reason: "finished", result: "all done" });
  expect(run?.changedFiles).toEqual(["a.txt", "new/b.txt"]);
  expect(scenario.effects(), "each command ran once").toEqual(
    Array.from({ length: marks }, (_, index) => markOf("k", index + 1)),
  );
  const database = scenario.database();
  expectSoundLogs(database);
  const interrupted = database
    .prepare("SELECT count(*) AS n FROM calls WHERE state = 'interrupted'")
    .get() as { n: number };
  expect(interrupted.n, "results of finished commands are harvested").toBe(0);
  const compactions = database.prepare("SELECT count(*) AS n FROM compactions").get() as { n: number };
  expect(compactions.n, "the history was summarised on the way").toBeGreaterThan(0);
  expect(countBrokenPrefixes(scenario.server.requests)).toBeLessThanOrEqual(compactions.n);
  const asked = database.prepare("SELECT count(*) AS n FROM model_calls WHERE state = 'done'").get() as {
    n: number;
  };
  const lost = database.prepare("SELECT count(*) AS n FROM model_calls WHERE state = 'lost'").get() as {
    n: number;
  };
  expect(scenario.server.requests.length, "no committed reply is asked for again").toBeLessThanOrEqual(
    asked.n + lost.n,
  );
  const patch = await runPawl(["export", "k", "--format", "patch"], {
    cwd: scenario.folder,
    env: scenario.env,
  });
  execFileSync("git", ["apply", "-"], { cwd: scenario.repo, input: patch.stdout });
  expect(readFileSync(path.join(scenario.repo, "a.txt"), "utf8")).toBe("two\n");
}
