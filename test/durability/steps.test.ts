import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { kindsOfEvents, story, visible, workspaceOf } from "../helpers/file-story.ts";
import { runPawl } from "../helpers/pawl-process.ts";
import { createScenario } from "../helpers/scenario.ts";

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
    expect((await runPawl(["diff", "k", "--step", "9"], at)).stderr).toContain(
      "expected --step to be a step of run",
    );
  });

  test("a run in place is put back and forth between its steps", async () => {
    const scenario = await createScenario(story);
    await scenario.json("enqueue", "Do the work of KEY=k.", "--dir", scenario.repo, "--key", "k");
    await scenario.worker().ended();
    const files = ["file-1.txt", "file-2.txt", "file-3.txt"];
    for (const step of [0, 1, 3, 2]) {
      await scenario.json("restore", "k", "--step", String(step));
      expect(visible(scenario.repo), `after step ${step}`).toEqual(["a.txt", ...files.slice(0, step)]);
    }
    expect(readFileSync(path.join(scenario.repo, "a.txt"), "utf8")).toBe("one\n1\n2\n");
  });

  test("a file that the user made while nobody worked on the run is not the run's to take back", async () => {
    const scenario = await createScenario(story);
    await scenario.json("enqueue", "Do the work of KEY=k.", "--dir", scenario.repo, "--key", "k");
    await scenario.worker({ env: { PAWL_FAILPOINT: "plan.committed:2" } }).ended();
    writeFileSync(path.join(scenario.repo, "user.txt"), "mine");
    await scenario.worker().ended();
    await scenario.json("restore", "k", "--step", "0");
    expect(visible(scenario.repo)).toEqual(["a.txt", "user.txt"]);
    expect(readFileSync(path.join(scenario.repo, "user.txt"), "utf8")).toBe("mine");
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

test("where no snapshot can be taken the run goes on; an event says so once, and the outcome's notes", async () => {
  // More repositories inside than a snapshot looks into.
  const many = "git init -q in; for n in $(seq 205); do cp -r in in-$n; done";
  const scenario = await createScenario((key, done, run) =>
    done < 3 ? { toolCalls: [run(done + 1, done === 0 ? many : "true")] } : { content: `done ${key}` },
  );
  await scenario.enqueue(["k"]);
  await scenario.worker({ env: { PAWL_FAILPOINT: "plan.committed:3" } }).ended();
  await scenario.worker().ended();
  expect((await scenario.json("show", "k"))[0]).toMatchObject({ status: "succeeded", steps: 4 });
  const shown = await runPawl(["show", "k"], { cwd: scenario.folder, env: scenario.env });
  expect(shown.stdout).toMatch(/\nnotes\n(.*\n)*some steps have no snapshot .*: more than 200 repositories/);
  const kinds = kindsOfEvents(scenario);
  expect(kinds.filter((kind) => kind === "snapshot_skipped")).toHaveLength(1);
  expect(kinds, "what the run did itself is no change by others").not.toContain("workspace_changed");
});
