import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { WorkspaceError } from "../../src/errors.ts";
import { snapshot } from "../../src/workspace/snapshot.ts";
import type { Workspace } from "../../src/workspace/workspace.ts";
import { useFixture } from "./fixture.ts";

const fixture = useFixture();

async function treeOf(runId: string, workspace: Workspace): Promise<string> {
  const taken = await snapshot({ path: workspace.path, run: fixture.run(runId) });
  if ("skipped" in taken) throw new Error(taken.skipped);
  return taken.tree;
}

function files(workspace: Workspace): string {
  return fixture.sh(workspace.path, "find . -path ./.git -prune -o -type f -exec sha256sum {} + | sort");
}

const remove = (workspace: Workspace) => rmSync(workspace.path, { recursive: true });

test("a clone that is gone is made anew from the base and the last snapshot, also without its source", async () => {
  const repo = fixture.repository();
  fixture.sh(repo, "echo '*.log' > .gitignore; echo base > kept.log; git add -f .; git commit -qm log");
  const first = await fixture.prepare("r1", { repo });
  fixture.sh(first.path, "echo work > new; rm b.txt kept.log; printf 'a\\r\\n' > a.txt; chmod +x a.txt");
  const lastTree = await treeOf("r1", first);
  const before = files(first);
  const head = fixture.sh(first.path, "git rev-parse HEAD");
  remove(first);
  fixture.sh(repo, "git commit -q --allow-empty -m later; rm -rf .git");
  const { news, ...again } = await fixture.prepare("r1", { repo, lastTree });
  expect(again).toEqual(first);
  expect(news).toMatchObject([{ kind: "workspace_rebuilt", text: expect.stringContaining("made anew") }]);
  expect(files(again)).toBe(before);
  expect(await treeOf("r1", again)).toBe(lastTree);
  expect(fixture.sh(again.path, "git rev-parse HEAD; git symbolic-ref --short HEAD")).toBe(`${head}\nmain`);
  expect(fixture.sh(again.path, "git status --porcelain | sort")).toBe(
    "D b.txt\n D kept.log\n M a.txt\n?? new",
  );
  expect(await fixture.prepare("r1", { repo, lastTree }), "until it is told").toEqual({ ...first, news });
});

test("a clone whose mirror is gone as well is made anew from its source", async () => {
  const repo = fixture.repository();
  const first = await fixture.prepare("r1", { repo });
  fixture.sh(first.path, "echo work > new");
  const lastTree = await treeOf("r1", first);
  fixture.sh(repo, "echo two > a.txt; git commit -qam second");
  remove(first);
  rmSync(fixture.paths.repos, { recursive: true });
  const again = await fixture.prepare("r1", { repo, lastTree });
  expect(fixture.sh(again.path, "cat a.txt new")).toBe("one\nwork");
  expect(fixture.sh(again.path, "git rev-parse HEAD")).toBe(first.baseCommit);
});

test("an empty folder that is gone is made anew", async () => {
  const first = await fixture.prepare("r1", {});
  fixture.sh(first.path, "mkdir d; echo work > d/new");
  const lastTree = await treeOf("r1", first);
  remove(first);
  const again = await fixture.prepare("r1", { lastTree });
  expect(fixture.sh(again.path, "cat d/new")).toBe("work");
});

test("what cannot be made anew is a workspace error that says so, and leaves nothing half made", async () => {
  const repo = fixture.repository();
  const first = await fixture.prepare("r1", { repo });
  remove(first);
  for (const place of [repo, fixture.paths.repos]) rmSync(place, { recursive: true });
  const prepare = () => fixture.prepare("r1", { repo, lastTree: first.baseTree });
  await expect(prepare()).rejects.toThrow(WorkspaceError);
  await expect(prepare()).rejects.toThrow(/could not be made anew/);
  expect(fixture.sh(fixture.root, "ls workspaces")).toBe("");
});

test("a folder in place that is gone is not made anew", async () => {
  const dir = path.join(fixture.root, "folder");
  mkdirSync(dir);
  const first = await fixture.prepare("r1", { dir });
  remove(first);
  await expect(fixture.prepare("r1", { dir })).rejects.toThrow(/folder .* is gone: bring it back/);
  expect(existsSync(dir)).toBe(false);
});

test("a fork begins with the origin's snapshot in a clone of its own, and needs the origin no more", async () => {
  const repo = fixture.repository();
  fixture.sh(repo, "echo '*.log' > .gitignore; echo base > kept.log; git add -f .; git commit -qm log");
  const origin = await fixture.prepare("r1", { repo });
  fixture.sh(origin.path, "echo 1 > new; rm b.txt; echo changed > kept.log");
  const tree = await treeOf("r1", origin);
  const before = files(origin);
  fixture.sh(origin.path, "echo 2 > new; echo 2 > later");
  const later = await treeOf("r1", origin);
  const source = { repo, origin: { run: fixture.run("r1"), trees: [tree] } };
  const fork = await fixture.prepare("r2", source);
  expect(fork).toMatchObject({ kind: "clone", baseCommit: origin.baseCommit, baseTree: origin.baseTree });
  expect(files(fork)).toBe(before);
  rmSync(fixture.run("r1").dir, { recursive: true });
  expect(await treeOf("r2", fork)).toBe(tree);
  expect(() => fixture.sh("data/runs/r2/git", `git cat-file -e ${later}`), "only what was copied").toThrow();
  fixture.sh(fork.path, "echo 3 > third");
  const products = await fixture.finish("r2", fork);
  expect(products).toMatchObject({ changedFiles: ["b.txt", "kept.log", "new", "third"], notes: [] });
  expect(readFileSync(path.join(origin.path, "new"), "utf8")).toBe("2\n");
});

test("a fork of a run in place works in a folder of its own, with the same ignore rules", async () => {
  fixture.repository();
  fixture.sh("source", "echo /sub/skip > .gitignore; mkdir sub; echo 1 > sub/x; echo 1 > sub/skip");
  const origin = await fixture.prepare("r1", { dir: path.join(fixture.root, "source/sub") });
  fixture.sh(origin.path, "echo 2 > x");
  const tree = await treeOf("r1", origin);
  fixture.sh(origin.path, "echo 3 > x");
  const fork = await fixture.prepare("r2", { origin: { run: fixture.run("r1"), trees: [tree] } });
  expect(fork.kind).toBe("empty");
  expect(fixture.sh(fork.path, "grep . *")).toBe("2");
  fixture.sh(fork.path, "echo mine > skip");
  expect(await treeOf("r2", fork)).toBe(tree);
  expect(fixture.sh("source/sub", "cat x")).toBe("3");
});

test("a fork of a run that is gone is a workspace error", async () => {
  const origin = { run: fixture.run("gone"), trees: ["0123456789012345678901234567890123456789"] };
  await expect(fixture.prepare("r2", { origin })).rejects.toThrow(WorkspaceError);
});
