import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { expectSoundLogs } from "../helpers/invariants.ts";
import { processesOf, runPawl } from "../helpers/pawl-process.ts";
import { createScenario, type Scenario, type Story } from "../helpers/scenario.ts";
import { waitUntil } from "../helpers/wait-until.ts";

/** Each step writes a file of its own and changes one that was there. */
const story: Story = (_key, done, run) => {
  const next = done + 1;
  if (next > 3) return { content: "all done" };
  return { toolCalls: [run(next, `echo ${next} > file-${next}.txt; echo ${next} >> a.txt`)] };
};

async function workspaceOf(scenario: Scenario, key: string): Promise<string> {
  const [run = {}] = await scenario.json("show", key);
  return (run.workspace as { path: string }).path;
}

function visible(folder: string): string[] {
  return readdirSync(folder)
    .filter((name) => name !== ".git")
    .toSorted();
}

const bodyOfLastRequest = (scenario: Scenario) => JSON.stringify(scenario.server.requests.at(-1)?.messages);

describe("snapshots", () => {
  test("the files after each step can be seen and restored", async () => {
    const scenario = await createScenario(story);
    await scenario.enqueue(["k"]);
    await scenario.worker().ended();
    const at = { cwd: scenario.folder, env: scenario.env };
    const diff = await runPawl(["diff", "k", "--step", "2"], at);
    expect(diff.stdout).toContain("+++ b/file-2.txt");
    expect(diff.stdout).not.toContain("file-1.txt");
    const to = path.join(scenario.folder, "restored");
    await scenario.json("restore", "k", "--step", "2", "--to", to);
    expect(visible(to)).toEqual(["a.txt", "file-1.txt", "file-2.txt"]);
    expect(readFileSync(path.join(to, "a.txt"), "utf8")).toBe("one\n1\n2\n");
    const again = await runPawl(["restore", "k", "--step", "1", "--to", to], at);
    expect(again.code).toBe(2);
    expect(again.stderr).toContain("expected a new or empty folder");
    expect((await runPawl(["diff", "k", "--step", "9"], at)).stderr).toContain("expected a step that run");
  });

  test("a run in place is undone, and what the user did since stays", async () => {
    const scenario = await createScenario(story);
    const folder = path.join(scenario.folder, "mine");
    await scenario.json("enqueue", "Do the work of KEY=k.", "--dir", scenario.repo, "--key", "k");
    await scenario.worker().ended();
    expect(existsSync(folder)).toBe(false);
    expect(visible(scenario.repo)).toEqual(["a.txt", "file-1.txt", "file-2.txt", "file-3.txt"]);
    writeFileSync(path.join(scenario.repo, "later.txt"), "mine");
    const [restored] = await scenario.json("restore", "k", "--step", "0");
    expect(visible(scenario.repo)).toEqual(["a.txt", "later.txt"]);
    expect(readFileSync(path.join(scenario.repo, "a.txt"), "utf8")).toBe("one\n");
    expect(restored?.saved).toMatch(/^[0-9a-f]{40}$/);
  });

  test("a fork goes on from a step's files and log, and counts no copied step", async () => {
    const scenario = await createScenario(story);
    await scenario.enqueue(["k"]);
    await scenario.worker().ended();
    const before = scenario.server.requests.length;
    const [made] = await scenario.json("fork", "k", "Do it again from here.", "--step", "1");
    const id = String(made?.id);
    await scenario.worker({ env: { PAWL_FAILPOINT: "plan.committed:2" } }).ended();
    await scenario.worker().ended();
    const [run] = await scenario.json("show", id);
    expect(run).toMatchObject({
      status: "succeeded",
      steps: 3,
      key: null,
      changedFiles: ["a.txt", "file-1.txt", "file-2.txt", "file-3.txt"],
    });
    const workspace = await workspaceOf(scenario, id);
    expect(readFileSync(path.join(workspace, "a.txt"), "utf8")).toBe("one\n1\n2\n3\n");
    const first = JSON.stringify(scenario.server.requests[before]?.messages);
    expect(first).toContain("mark-k-1");
    expect(first).toContain("Do it again from here.");
    expect(first).not.toContain("mark-k-2");
    const seqs = scenario
      .database()
      .prepare("SELECT seq FROM messages WHERE run_id = ? ORDER BY seq")
      .all(id) as { seq: number }[];
    expect(seqs.map(({ seq }) => seq)).toEqual(seqs.map((_, index) => index + 1));
  });
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

describe("at resume", () => {
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
      for (const pid of processesOf(path.join(scenario.folder, "data"))) process.kill(pid, "SIGKILL");
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
