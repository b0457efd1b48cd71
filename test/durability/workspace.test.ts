import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import {
  bodyOfLastRequest,
  killAll,
  kindsOfEvents,
  story,
  visible,
  workspaceOf,
} from "../helpers/file-story.ts";
import { expectSoundLogs } from "../helpers/invariants.ts";
import { processesOf, runPawl } from "../helpers/pawl-process.ts";
import { createScenario } from "../helpers/scenario.ts";
import { waitUntil } from "../helpers/wait-until.ts";

describe("at resume", () => {
  test("a step that was cut between two results is no change by others", async () => {
    const scenario = await createScenario((key, done, run) =>
      done === 0
        ? { toolCalls: [run(1, "echo 1 > file-1.txt"), { name: "read_file", arguments: { path: "a.txt" } }] }
        : { content: `done ${key}` },
    );
    await scenario.enqueue(["k"]);
    await scenario.worker({ env: { PAWL_FAILPOINT: "call.finished:2" } }).ended();
    await scenario.worker({ env: { PAWL_FAILPOINT: "plan.committed:1" } }).ended();
    await scenario.worker().ended();
    expect((await scenario.json("show", "k"))[0]).toMatchObject({ status: "succeeded", steps: 2 });
    expect(kindsOfEvents(scenario)).not.toContain("workspace_changed");
    expect(bodyOfLastRequest(scenario)).not.toContain("others changed");
  });

  test("files that others changed while a call was open are named with its result", async () => {
    const scenario = await createScenario((key, done, run) => {
      if (done > 0) return { content: `done ${key}` };
      const isRead = scenario.server.requests.at(-1)?.messages.some(({ role }) => role === "tool");
      return { toolCalls: [isRead ? run(1) : { name: "read_file", arguments: { path: "a.txt" } }] };
    });
    await scenario.enqueue(["k"]);
    await scenario.worker({ env: { PAWL_FAILPOINT: "call.finished:1" } }).ended();
    writeFileSync(path.join(await workspaceOf(scenario, "k"), "stranger.txt"), "x");
    await scenario.worker({ env: { PAWL_FAILPOINT: "plan.committed:2" } }).ended();
    await scenario.worker().ended();
    const told = scenario.server.requests
      .at(-1)
      ?.messages.filter(({ content }) => JSON.stringify(content)?.includes("A stranger.txt"));
    expect(told?.map(({ role }) => role)).toEqual(["tool"]);
    expect(kindsOfEvents(scenario).filter((kind) => kind === "workspace_changed")).toHaveLength(1);
    expectSoundLogs(scenario.database());
  });

  test("what was told once is not told again", async () => {
    const scenario = await createScenario((key, done, run) => {
      if (done > 1) return { content: `done ${key}` };
      const looks = scenario.server.requests.at(-1)?.messages.filter(({ role }) => role === "tool").length;
      return {
        toolCalls: [looks === 1 ? { name: "read_file", arguments: { path: "a.txt" } } : run(done + 1)],
      };
    });
    await scenario.enqueue(["k"]);
    await scenario.worker({ env: { PAWL_FAILPOINT: "plan.committed:2" } }).ended();
    writeFileSync(path.join(await workspaceOf(scenario, "k"), "stranger.txt"), "x");
    await scenario.worker({ env: { PAWL_FAILPOINT: "plan.committed:2" } }).ended();
    await scenario.worker().ended();
    expect(kindsOfEvents(scenario).filter((kind) => kind === "workspace_changed")).toHaveLength(1);
  });

  test("rolling back leaves the work of the calls before in the same step", async () => {
    const scenario = await createScenario((key, done, run) =>
      done === 0
        ? { toolCalls: [run(1, "echo 1 > first.txt"), run(2, "echo half > half.txt; sleep 60")] }
        : { content: `done ${key}` },
    );
    await scenario.enqueue(["k"], ["--on-interrupt", "rollback"]);
    const doomed = scenario.worker();
    const workspace = async () => workspaceOf(scenario, "k");
    await waitUntil(
      async () => scenario.effects().length === 2 && existsSync(path.join(await workspace(), "half.txt")),
      { timeoutMs: 20_000, what: "the second command has begun" },
    );
    doomed.child.kill("SIGKILL");
    await doomed.ended();
    killAll(scenario);
    await scenario.worker().ended();
    expect(visible(await workspace())).toEqual(["a.txt", "first.txt"]);
    const event = scenario
      .database()
      .prepare("SELECT data FROM events WHERE kind = 'workspace_rolled_back'")
      .get() as { data: string };
    const { saved, files } = JSON.parse(event.data);
    expect(files).toEqual(["half.txt"]);
    const [run] = await scenario.json("show", "k");
    const store = path.join(scenario.folder, "data/runs", String(run?.id), "git");
    const kept = execFileSync("git", ["--git-dir", store, "cat-file", "blob", `${saved}:half.txt`]);
    expect(kept.toString()).toBe("half\n");
    await scenario.json("restore", "k", "--snapshot", saved, "--to", "kept");
    expect(readFileSync(path.join(scenario.folder, "kept/half.txt"), "utf8")).toBe("half\n");
  });

  test("where an ignored file stands in the way of a rollback, the run goes on and the model is told", async () => {
    const scenario = await createScenario((key, done, run) => {
      if (done === 0) return { toolCalls: [run(1, "echo file > thing")] };
      if (done > 1) return { content: `done ${key}` };
      const script = "rm thing; echo /thing/ > .gitignore; mkdir thing; echo precious > thing/x; sleep 60";
      return { toolCalls: [run(2, script)] };
    });
    await scenario.enqueue(["k"], ["--on-interrupt", "rollback"]);
    const doomed = scenario.worker();
    const precious = async () => path.join(await workspaceOf(scenario, "k"), "thing/x");
    await waitUntil(async () => scenario.effects().length === 2 && existsSync(await precious()), {
      timeoutMs: 20_000,
      what: "the second command has begun",
    });
    doomed.child.kill("SIGKILL");
    await doomed.ended();
    killAll(scenario);
    await scenario.worker().ended();
    expect((await scenario.json("show", "k"))[0]).toMatchObject({ status: "succeeded" });
    expect(readFileSync(await precious(), "utf8")).toBe("precious\n");
    expect(bodyOfLastRequest(scenario)).toMatch(/could not be put back.*thing\/x.*Changed in the workspace/s);
  });

  test("an undisturbed workspace is gone on with, without a word", async () => {
    const scenario = await createScenario(story);
    await scenario.enqueue(["k"]);
    await scenario.worker({ env: { PAWL_FAILPOINT: "plan.committed:2" } }).ended();
    await scenario.worker().ended();
    const kinds = scenario.database().prepare("SELECT DISTINCT kind FROM messages ORDER BY kind").all();
    expect(kinds).toEqual(["reply", "result", "system", "task"].map((kind) => ({ kind })));
    expectSoundLogs(scenario.database());
  });

  test("files that others changed meanwhile are named to the model", async () => {
    const scenario = await createScenario(story);
    await scenario.enqueue(["k"]);
    await scenario.worker({ env: { PAWL_FAILPOINT: "plan.committed:2" } }).ended();
    writeFileSync(path.join(await workspaceOf(scenario, "k"), "stranger.txt"), "x");
    await scenario.worker().ended();
    expect(bodyOfLastRequest(scenario)).toMatch(/others changed files.*A stranger\.txt/s);
    const event = scenario
      .database()
      .prepare("SELECT data FROM events WHERE kind = 'workspace_changed'")
      .get() as { data: string };
    expect(JSON.parse(event.data)).toEqual({ count: 1, files: ["stranger.txt"] });
    expectSoundLogs(scenario.database());
  });

  test("a workspace that is gone is made anew as it was after the last step, and it is said", async () => {
    const scenario = await createScenario(story);
    await scenario.enqueue(["k"]);
    await scenario.worker({ env: { PAWL_FAILPOINT: "plan.committed:3" } }).ended();
    const workspace = await workspaceOf(scenario, "k");
    rmSync(workspace, { recursive: true });
    await scenario.worker().ended();
    expect((await scenario.json("show", "k"))[0]).toMatchObject({ status: "succeeded" });
    expect(visible(workspace)).toEqual(["a.txt", "file-1.txt", "file-2.txt", "file-3.txt"]);
    expect(bodyOfLastRequest(scenario)).toContain("has been made anew");
  });

  test("a worker killed between making it anew and saying so leaves it to the next to say, once", async () => {
    const scenario = await createScenario(story);
    await scenario.enqueue(["k"]);
    await scenario.worker({ env: { PAWL_FAILPOINT: "plan.committed:2" } }).ended();
    rmSync(await workspaceOf(scenario, "k"), { recursive: true });
    const killed = await scenario.worker({ env: { PAWL_FAILPOINT: "workspace.rebuilt" } }).ended();
    expect(killed.signal).toBe("SIGKILL");
    await scenario.worker({ env: { PAWL_FAILPOINT: "plan.committed:2" } }).ended();
    await scenario.worker().ended();
    const told = scenario.database().prepare("SELECT body FROM messages WHERE body LIKE '%made anew%'").all();
    expect(told).toHaveLength(1);
    expect(kindsOfEvents(scenario).filter((kind) => kind === "workspace_rebuilt")).toHaveLength(1);
    expect((await scenario.json("show", "k"))[0]).toMatchObject({ status: "succeeded" });
    expectSoundLogs(scenario.database());
  });

  test.each([
    {
      policy: "keep",
      files: ["a.txt", "file-1.txt", "half.txt", "file-3.txt"],
      said: /Changed in the workspace.*A half\.txt/s,
    },
    { policy: "rollback", files: ["a.txt", "file-1.txt", "file-3.txt"], said: /put back.*A half\.txt/s },
  ])(
    "after a call of unknown outcome the workspace follows the policy $policy",
    async ({ policy, files, said }) => {
      const scenario = await createScenario((key, done, run) => {
        if (done === 1) return { toolCalls: [run(2, "echo half > half.txt; sleep 60")] };
        // The mark of the interrupted command is in its captured output.
        return story(key, done, run);
      });
      await scenario.enqueue(["k"], ["--on-interrupt", policy]);
      const doomed = scenario.worker();
      const workspace = async () => workspaceOf(scenario, "k");
      await waitUntil(
        async () => scenario.effects().length === 2 && existsSync(path.join(await workspace(), "half.txt")),
        {
          timeoutMs: 20_000,
          what: "the command has begun",
        },
      );
      doomed.child.kill("SIGKILL");
      await doomed.ended();
      // Its supervisor dies too, so nobody knows how it ended.
      killAll(scenario);
      await scenario.worker().ended();
      expect((await scenario.json("show", "k"))[0]).toMatchObject({ status: "succeeded" });
      expect(visible(await workspace())).toEqual(files.toSorted());
      expect(bodyOfLastRequest(scenario)).toMatch(said);
      const interrupted = scenario
        .database()
        .prepare("SELECT count(*) AS n FROM calls WHERE state = 'interrupted'")
        .get();
      expect(interrupted).toEqual({ n: 1 });
    },
  );
});

describe("a workspace that is deleted while its run works", () => {
  test("is made anew before anything of it is recorded: the model is told and the change holds no deletion", async () => {
    const scenario = await createScenario((key, done, run) => {
      if (done === 0) return { toolCalls: [run(1, "echo lost > lost.txt; sleep 2")] };
      return story(key, done, run);
    });
    await scenario.enqueue(["k"]);
    const worker = scenario.worker();
    await waitUntil(() => scenario.effects().length === 1, { timeoutMs: 20_000, what: "the command runs" });
    rmSync(await workspaceOf(scenario, "k"), { recursive: true });
    expect((await worker.ended()).code).toBe(0);
    const [run] = await scenario.json("show", "k");
    expect(run).toMatchObject({ status: "succeeded", changedFiles: ["a.txt", "file-2.txt", "file-3.txt"] });
    expect(bodyOfLastRequest(scenario)).toContain("has been made anew");
    const patch = await runPawl(["diff", "k"], { cwd: scenario.folder, env: scenario.env });
    expect(patch.stdout).not.toContain("deleted file");
    expectSoundLogs(scenario.database());
  });

  test("by the agent itself is made anew too, also in its last step", async () => {
    const scenario = await createScenario((_key, done, run) =>
      done === 0 ? { toolCalls: [run(1, 'rm -rf "$PWD"')] } : { content: "all done" },
    );
    await scenario.enqueue(["k"]);
    await scenario.worker().ended();
    expect((await scenario.json("show", "k"))[0]).toMatchObject({ status: "succeeded", changedFiles: [] });
    expect(visible(await workspaceOf(scenario, "k"))).toEqual(["a.txt"]);
  });

  test("in a folder of the user's ends the run as workspace_error, and nothing is put in its place", async () => {
    const scenario = await createScenario((_key, done, run) =>
      done === 0 ? { toolCalls: [run(1, 'rm -rf "$PWD"')] } : { content: "all done" },
    );
    await scenario.json("enqueue", "Do the work of KEY=k.", "--dir", scenario.repo, "--key", "k");
    await scenario.worker().ended();
    expect((await scenario.json("show", "k"))[0]).toMatchObject({
      status: "failed",
      reason: "workspace_error",
    });
    expect(existsSync(scenario.repo)).toBe(false);
  });

  test("is told of after a kill too, with the result of the command that was under way", async () => {
    const scenario = await createScenario((key, done, run) => {
      if (done === 0) return { toolCalls: [run(1, "echo lost > lost.txt; sleep 2")] };
      return story(key, done, run);
    });
    await scenario.enqueue(["k"]);
    const doomed = scenario.worker();
    await waitUntil(() => scenario.effects().length === 1, { timeoutMs: 20_000, what: "the command runs" });
    doomed.child.kill("SIGKILL");
    await doomed.ended();
    await waitUntil(() => processesOf(path.join(scenario.folder, "data")).length === 0, {
      timeoutMs: 20_000,
      what: "the command ends",
    });
    rmSync(await workspaceOf(scenario, "k"), { recursive: true });
    await scenario.worker().ended();
    const result = scenario
      .database()
      .prepare("SELECT body FROM messages WHERE kind = 'result' ORDER BY seq")
      .get() as { body: string };
    expect(result.body).toContain("has been made anew");
    expect((await scenario.json("show", "k"))[0]).toMatchObject({
      status: "succeeded",
      changedFiles: ["a.txt", "file-2.txt", "file-3.txt"],
    });
  });
});
