import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { bodyOfLastRequest, story, visible, workspaceOf } from "../helpers/file-story.ts";
import { expectSoundLogs } from "../helpers/invariants.ts";
import { runPawl } from "../helpers/pawl-process.ts";
import { git } from "../helpers/repository.ts";
import { createScenario } from "../helpers/scenario.ts";

// A data directory is moved, with the workspaces in it, and used from its new place.

/** The run `k` has two steps behind it and no worker; then its data directory is at `home`. */
async function movedMidway() {
  const scenario = await createScenario(story);
  // No step touches it: its contents are in the mirror alone.
  writeFileSync(path.join(scenario.repo, "kept.txt"), "kept\n");
  git(scenario.repo, "add", ".");
  git(scenario.repo, "commit", "--quiet", "--message", "more");
  await scenario.enqueue(["k"]);
  await scenario.worker({ env: { PAWL_FAILPOINT: "plan.committed:3" } }).ended();
  const before = await workspaceOf(scenario, "k");
  const home = path.join(scenario.folder, "data-2");
  renameSync(path.join(scenario.folder, "data"), home);
  const env = { ...scenario.env, PAWL_HOME: home };
  const pawl = (...words: string[]) => runPawl(words, { cwd: scenario.folder, env });
  const json = async (...words: string[]) => {
    const { stdout, stderr, code } = await pawl(...words, "--json");
    expect(code, stderr).toBe(0);
    return JSON.parse(stdout) as Record<string, unknown>;
  };
  const drain = async () => expect((await pawl("worker", "--drain")).code).toBe(0);
  const placeOf = async (run: string) => ((await json("show", run)).workspace as { path: string }).path;
  const database = () => {
    const opened = new Database(path.join(home, "pawl.db"));
    onTestFinished(() => void opened.close());
    return opened;
  };
  return { scenario, before, home, pawl, json, drain, placeOf, database };
}

const changed = ["a.txt", "file-1.txt", "file-2.txt", "file-3.txt"];
const all = [...changed, "kept.txt"];

test("a run goes on in a moved data directory, in its own clone, and is told where that is now", async () => {
  const { scenario, before, home, json, drain, placeOf, database } = await movedMidway();
  await drain();
  expect(await json("show", "k")).toMatchObject({ status: "succeeded", changedFiles: changed });
  const place = await placeOf("k");
  expect(place.startsWith(home)).toBe(true);
  expect(visible(place)).toEqual(all);
  expect(existsSync(path.join(scenario.folder, "data"))).toBe(false);
  const said = bodyOfLastRequest(scenario);
  expect(said).toContain(`The working directory is ${place} now: use it instead of ${before}.`);
  expect(said).not.toContain("made anew");
  const kinds = database().prepare("SELECT kind FROM events WHERE kind LIKE 'workspace%'").all();
  expect(kinds).toEqual([{ kind: "workspace_moved" }]);
  expectSoundLogs(database());
});

test("its steps can be seen, restored and forked", async () => {
  const { scenario, home, json, pawl, drain, placeOf } = await movedMidway();
  expect((await pawl("diff", "k", "--step", "2")).stdout).toContain("+++ b/file-2.txt");
  const to = path.join(scenario.folder, "restored");
  await json("restore", "k", "--step", "1", "--to", to);
  expect(visible(to)).toEqual(["a.txt", "file-1.txt", "kept.txt"]);
  const { id } = await json("fork", "k", "--step", "1");
  await drain();
  expect(await json("show", String(id))).toMatchObject({ status: "succeeded", changedFiles: changed });
  const place = await placeOf(String(id));
  expect(place.startsWith(home)).toBe(true);
  expect(readFileSync(path.join(place, "a.txt"), "utf8")).toBe("one\n1\n2\n3\n");
});

test("a clone that did not come along is made anew at the new place", async () => {
  const { scenario, home, json, drain, placeOf } = await movedMidway();
  rmSync(path.join(home, "workspaces"), { recursive: true });
  await drain();
  expect(await json("show", "k")).toMatchObject({ status: "succeeded", changedFiles: changed });
  expect(visible(await placeOf("k"))).toEqual(all);
  expect(bodyOfLastRequest(scenario)).toContain("has been made anew");
  expect(existsSync(path.join(scenario.folder, "data"))).toBe(false);
});
