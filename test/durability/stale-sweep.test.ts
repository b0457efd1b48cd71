import { execFileSync } from "node:child_process";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { expectSoundLogs } from "../helpers/invariants.ts";
import { createScenario, markOf, type Scenario, type Story } from "../helpers/scenario.ts";

// A worker is stopped with SIGSTOP at each point by name, another takes its run over and finishes it, then the stopped one
// wakes: nothing of what it was about to do may happen.

const marks = 4;
/** Small, so that the history is summarised on the way. */
const config = { contextTokens: 3600, maxOutputTokens: 500 };
const leaseMs = 700;

/** The last step undoes what the file tools did: done again by a stale worker, it would show. */
const story: Story = (_key, done, run) => {
  const next = done + 1;
  if (next === 1) return { toolCalls: [run(1, "seq 1 2000")] };
  if (next === 2) return { toolCalls: [writeFile, run(2, "seq 1 2000")] };
  if (next === 3) return { toolCalls: [editFile, run(3, "seq 1 2000")] };
  if (next === marks)
    return { toolCalls: [run(4, "echo more >> b.txt; sed -i s/two/one/ a.txt; seq 1 2000")] };
  return { content: "all done" };
};
const writeFile = { name: "write_file", arguments: { path: "b.txt", content: "b\n" } };
const editFile = { name: "edit_file", arguments: { path: "a.txt", oldText: "one", newText: "two" } };

/** `call.started` is passed by: command, write_file, command, edit_file, command, command. */
const sweep = [
  "claim.committed",
  "mirror.updated",
  "workspace.made",
  "workspace.prepared",
  "plan.committed:2",
  "model.answered:2",
  "reply.committed:2",
  "call.started",
  "call.started:2",
  "call.started:4",
  "command.started",
  "command.finished",
  "call.finished:2",
  "summary.planned",
  "finish.started",
  "finish.gathered",
  "finish.patched",
  "finish.prepared",
];

describe("a worker stopped beyond its lease", () => {
  test.each(sweep)("at %s does nothing when it wakes", { timeout: 120_000 }, async (point) => {
    const scenario = await createScenario(story, { config });
    await scenario.enqueue(["k"]);
    const setting = point.includes(":") ? `${point}:stop` : `${point}:1:stop`;
    const stale = scenario.worker({
      args: [],
      env: { PAWL_FAILPOINT: setting, PAWL_LEASE_MS: String(leaseMs) },
    });
    await stale.stopped();
    // Where the stopped one holds a lock it is waited for first.
    expect((await scenario.worker().ended(60_000)).code).toBe(0);
    const before = await everythingOf(scenario);
    process.kill(stale.pid, "SIGCONT");
    await stale.says("lease has run out");
    stale.child.kill("SIGTERM");
    expect((await stale.ended()).code).toBe(0);
    expect(await everythingOf(scenario)).toEqual(before);
    expect(before.run).toMatchObject({ status: "succeeded", result: "all done", changedFiles: ["b.txt"] });
    expect(before.effects, "each command ran once").toEqual(
      Array.from({ length: marks }, (_, index) => markOf("k", index + 1)),
    );
    expectSoundLogs(scenario.database());
  });
});

/** All that a stale worker could have touched: rows, files, commits, commands, requests. */
async function everythingOf(scenario: Scenario) {
  const [run] = await scenario.json("show", "k");
  const { path: workspace } = (run?.workspace ?? { path: "" }) as { path: string };
  const shell = (script: string) =>
    execFileSync("sh", ["-c", script], { cwd: path.resolve(workspace), encoding: "utf8" });
  const runFolder = path.join(scenario.folder, "data", "runs", String(run?.id));
  const database = scenario.database();
  const rowsOf = (table: string) => database.prepare(`SELECT * FROM ${table} WHERE run_id IS NOT NULL`).all();
  return {
    run,
    effects: scenario.effects(),
    requests: scenario.server.requests.length,
    files: shell("cat a.txt b.txt; git status --porcelain; git for-each-ref"),
    // The same content written again is another file.
    written: shell(
      `cd '${runFolder}'; stat -c '%i %Y' final.patch workspace.json; git --git-dir git for-each-ref`,
    ),
    rows: ["messages", "calls", "model_calls", "compactions", "snapshots", "events"].map(rowsOf),
  };
}
