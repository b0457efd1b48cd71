import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { failpoints } from "../../src/failpoint.ts";
import { expectSoundLogs, expectSoundRequests } from "../helpers/invariants.ts";
import { runPawl } from "../helpers/pawl-process.ts";
import { createScenario, markOf, type Scenario, type Story } from "../helpers/scenario.ts";
import { waitUntil } from "../helpers/wait-until.ts";

// The sweep: a worker is killed with SIGKILL at each failpoint by name, another goes on (or is killed in its turn), and in the
// end the run must look as if nothing had happened.

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

/**
 * Points at which a worker is killed, and where there are several in a row also the workers that follow it. Tools are started
 * in the order: command, command, command, write_file, edit_file, command, …; the readers finish together as the second.
 */
const sweep: string[][] = [
  ["worker.registered"],
  ["claim.committed"],
  ["mirror.updated"],
  ["workspace.made"],
  ["workspace.prepared"],
  ["begin.committed"],
  ["task.committed"],
  ...["plan.committed", "model.answered", "reply.committed", "result.committed"].map((name) => [
    name,
    `${name}:3`,
    `${name}:4`,
  ]),
  ["call.started", "command.started:2", "command.finished:2"],
  ["command.started", "command.finished", "call.started:2"],
  ["command.finished", "call.finished:3", "call.finished:3"],
  ["call.started:4"],
  ["call.started:5"],
  ["call.finished:5"],
  ["call.finished:6"],
  ["summary.planned", "summary.answered", "compaction.committed"],
  ["compaction.committed:2", "finish.started"],
  ["finish.gathered", "finish.patched", "finish.prepared"],
  ["finish.committed"],
  ["model.answered:2", "command.started:2", "call.finished", "summary.answered", "plan.committed:2"],
  ["command.started:2", "takeover.committed"],
];
/** Points of other processes, with tests of their own. */
const elsewhere = ["enqueue.committed", "workspace.rebuilt", "release.committed", "wait.committed"];

test("every failpoint is swept", () => {
  const swept = new Set([...sweep.flat().map((point) => point.split(":")[0]), ...elsewhere]);
  expect([...failpoints].filter((name) => !swept.has(name))).toEqual([]);
  expect(
    [...swept].filter((name) => !(failpoints as readonly (string | undefined)[]).includes(name)),
  ).toEqual([]);
});

describe("workers killed", () => {
  test.each(sweep.map((points) => [points.join(", then "), points] as const))(
    "at %s: nothing is lost, nothing is done twice",
    async (_, points) => {
      const scenario = await createScenario(story, { config });
      await scenario.enqueue(["k"]);
      for (const point of points) {
        const { signal } = await scenario.worker({ env: { PAWL_FAILPOINT: point } }).ended();
        expect(signal, `killed at ${point}`).toBe("SIGKILL");
      }
      expect((await scenario.worker().ended()).code).toBe(0);
      await expectUndisturbed(scenario, { kills: points.length });
    },
  );
});

test("a command whose supervisor is killed with the worker is not run again: the model is told that nobody knows", async () => {
  const long: Story = (_key, done, run) =>
    done === 0 ? { toolCalls: [run(1, "echo half; sleep 600")] } : { content: "all done" };
  const scenario = await createScenario(long);
  await scenario.enqueue(["k"]);
  const worker = scenario.worker();
  await waitUntil(() => scenario.effects().length === 1, { timeoutMs: 20_000, what: "the command runs" });
  worker.child.kill("SIGKILL");
  process.kill(-supervisorOf(scenario), "SIGKILL");
  await worker.ended();
  expect((await scenario.worker().ended()).code).toBe(0);
  expect((await scenario.json("show", "k"))[0]).toMatchObject({ status: "succeeded", steps: 2 });
  expect(scenario.effects(), "it ran once").toEqual([markOf("k", 1)]);
  const result = scenario.database().prepare("SELECT body FROM messages WHERE kind = 'result'").get();
  expect(result).toEqual({ body: expect.stringMatching(/outcome is unknown.*half/) });
  expectSoundLogs(scenario.database());
});

test("a producer killed after its commit has enqueued, and a worker finds the task without a hint", async () => {
  const scenario = await createScenario(story, { config });
  const at = { cwd: scenario.folder, env: { ...scenario.env, PAWL_FAILPOINT: "enqueue.committed" } };
  const args = ["enqueue", "Do the work of KEY=k.", "--key", "k", "--repo", scenario.repo];
  expect((await runPawl(args, at)).signal).toBe("SIGKILL");
  expect((await scenario.json("enqueue", ...args.slice(1)))[0]).toMatchObject({ key: "k", created: false });
  await scenario.worker().ended();
  await expectUndisturbed(scenario, { kills: 0 });
});

/** Leads a process group of its own; the command is in another. */
function supervisorOf(scenario: Scenario): number {
  const runs = path.join(scenario.folder, "data", "runs");
  const started = readdirSync(runs, { recursive: true, encoding: "utf8" }).filter((file) =>
    file.endsWith(".start"),
  );
  expect(started.length).toBe(1);
  return Number.parseInt(readFileSync(path.join(runs, started[0] ?? ""), "utf8"), 10);
}

async function expectUndisturbed(scenario: Scenario, { kills }: { kills: number }): Promise<void> {
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
  const failed = database.prepare("SELECT body FROM messages WHERE kind = 'result' AND body LIKE '%Error%'");
  expect(failed.all(), "no call is repeated that was done").toEqual([]);
  const compactions = database.prepare("SELECT count(*) AS n FROM compactions").get() as { n: number };
  expect(compactions.n, "the history was summarised on the way").toBeGreaterThan(0);
  expectSoundRequests(database, scenario.server.requests, kills);
  const patch = await runPawl(["export", "k", "--format", "patch"], {
    cwd: scenario.folder,
    env: scenario.env,
  });
  execFileSync("git", ["apply", "-"], { cwd: scenario.repo, input: patch.stdout });
  expect(readFileSync(path.join(scenario.repo, "a.txt"), "utf8")).toBe("two\n");
}
