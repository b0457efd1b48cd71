import { existsSync, lstatSync, mkdirSync, readFileSync, readlinkSync, rmSync, symlinkSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { diffTrees } from "../../src/workspace/diff.ts";
import { restoreTree, revertTree } from "../../src/workspace/restore.ts";
import { snapshot } from "../../src/workspace/snapshot.ts";
import type { Workspace } from "../../src/workspace/workspace.ts";
import { useFixture } from "./fixture.ts";

const fixture = useFixture();

async function treeOf(workspace: Workspace): Promise<string> {
  const taken = await snapshot({ path: workspace.path, run: fixture.run("r1") });
  if ("skipped" in taken) throw new Error(taken.skipped);
  return taken.tree;
}

const restore = (tree: string, target: string, isWorkspace: boolean) =>
  restoreTree({ run: fixture.run("r1"), tree, target, isWorkspace });

/** Everything in a folder that a snapshot holds: contents, kinds and executable bits. */
function listing(folder: string): string {
  return fixture.sh(
    folder,
    `find . -name .git -prune -o \\( -type f -printf '%P %m ' -exec sha256sum {} \\; \\) -o -type l -printf '%P -> %l\\n' | sort`,
  );
}

const awkward = `printf '\\0\\377\\r\\n' > bin; printf '#!/bin/sh\\n' > run.sh; chmod 755 run.sh
  ln -s a.txt link; ln -s /nowhere/at/all dangling; mkdir -p deep/er; echo x > 'deep/er/a b'; echo y > "$(printf 'deep/\\303\\244\\n')"
  printf 'a\\r\\n' > crlf.txt; printf '* text eol=lf\\n*.loud filter=shout\\n' > .gitattributes; printf 'quiet' > x.loud`;

test("a snapshot comes back byte for byte in a new folder: contents, executable bits, links, odd names", async () => {
  const workspace = await fixture.prepare("r1", { repo: fixture.repository() });
  fixture.sh(workspace.path, awkward);
  fixture.sh(workspace.path, "chmod 644 a.txt; rm b.txt");
  const tree = await treeOf(workspace);
  const target = path.join(fixture.root, "copy");
  expect(await restore(tree, target, false)).toEqual({ saved: null });
  expect(listing(target)).toBe(listing(workspace.path));
  expect(listing(target)).toContain("dangling -> /nowhere/at/all");
  expect(existsSync(path.join(target, ".git"))).toBe(false);
});

test("a folder with files that is not the workspace is refused", async () => {
  const workspace = await fixture.prepare("r1", { repo: fixture.repository() });
  mkdirSync(path.join(fixture.root, "full"));
  fixture.sh("full", "echo mine > a.txt");
  await expect(restore(workspace.baseTree ?? "", path.join(fixture.root, "full"), false)).rejects.toThrow(
    /new or empty folder/,
  );
  expect(fixture.sh("full", "cat a.txt")).toBe("mine");
});

test("putting the workspace back deletes what the snapshot lacks, after a snapshot of it, and leaves .git and ignored files", async () => {
  const workspace = await fixture.prepare("r1", { repo: fixture.repository() });
  fixture.sh(workspace.path, "echo '*.log' > .gitignore; echo two > c.txt");
  const before = await treeOf(workspace);
  const listed = listing(workspace.path);
  const head = fixture.sh(workspace.path, "git add .; git commit -qm mine; git rev-parse HEAD");
  fixture.sh(workspace.path, `${awkward}; rm a.txt; mkdir a.txt; echo z > a.txt/z; echo keep > old.log`);
  const { saved } = await restore(before, workspace.path, true);
  expect(readFileSync(path.join(workspace.path, "old.log"), "utf8")).toBe("keep\n");
  rmSync(path.join(workspace.path, "old.log"));
  expect(listing(workspace.path)).toBe(listed);
  expect(existsSync(path.join(workspace.path, "deep"))).toBe(false);
  expect(fixture.sh(workspace.path, "git rev-parse HEAD")).toBe(head);
  expect(await treeOf(workspace)).toBe(before);
  await restore(saved ?? "", workspace.path, true);
  expect(fixture.sh(workspace.path, "cat a.txt/z; cat deep/er/a*")).toBe("z\nx");
});

test("a tracked file that is ignored as well is put back, and deleted where the snapshot lacks it", async () => {
  const repo = fixture.repository();
  fixture.sh(repo, "echo '*.log' > .gitignore; echo base > kept.log; git add -f .; git commit -qm log");
  const workspace = await fixture.prepare("r1", { repo });
  const file = path.join(workspace.path, "kept.log");
  fixture.sh(workspace.path, "echo changed > kept.log");
  const changed = await treeOf(workspace);
  fixture.sh(workspace.path, "rm kept.log");
  const without = await treeOf(workspace);
  await restore(changed, workspace.path, true);
  expect(readFileSync(file, "utf8")).toBe("changed\n");
  await restore(without, workspace.path, true);
  expect(existsSync(file)).toBe(false);
});

test("an ignored file in the way is no casualty: nothing is changed at all", async () => {
  const workspace = await fixture.prepare("r1", { repo: fixture.repository() });
  fixture.sh(workspace.path, "mkdir build; echo out > build/out; echo 1 > other");
  const tree = await treeOf(workspace);
  fixture.sh(workspace.path, "rm -r build; echo /build > .gitignore; echo precious > build; echo 2 > other");
  await expect(restore(tree, workspace.path, true)).rejects.toThrow(/build/);
  expect(fixture.sh(workspace.path, "cat build other .gitignore")).toBe("precious\n2\n/build");
});

test("an ignored file inside of a folder in the way is no casualty either", async () => {
  const workspace = await fixture.prepare("r1", { repo: fixture.repository() });
  fixture.sh(workspace.path, "echo '*.log' > .gitignore; echo file > thing");
  const tree = await treeOf(workspace);
  fixture.sh(workspace.path, "rm thing; mkdir thing; echo 1 > thing/code; echo precious > thing/my.log");
  await expect(restore(tree, workspace.path, true)).rejects.toThrow("thing/my.log");
  expect(fixture.sh(workspace.path, "cat thing/*")).toBe("1\nprecious");
  fixture.sh(workspace.path, "rm thing/my.log");
  await restore(tree, workspace.path, true);
  expect(fixture.sh(workspace.path, "cat thing")).toBe("file");
});

test("nothing is written or deleted through a symbolic link", async () => {
  const workspace = await fixture.prepare("r1", { repo: fixture.repository() });
  fixture.sh(workspace.path, "mkdir dir; echo in > dir/file");
  const tree = await treeOf(workspace);
  const outside = path.join(fixture.root, "outside");
  mkdirSync(outside);
  fixture.sh(outside, "echo mine > file; echo mine > other");
  fixture.sh(workspace.path, "rm -r dir");
  symlinkSync(outside, path.join(workspace.path, "dir"));
  const linked = await treeOf(workspace);
  await restore(tree, workspace.path, true);
  expect(lstatSync(path.join(workspace.path, "dir")).isDirectory()).toBe(true);
  await restore(linked, workspace.path, true);
  expect(readlinkSync(path.join(workspace.path, "dir"))).toBe(outside);
  expect(fixture.sh(outside, "cat file other")).toBe("mine\nmine");
});

test("a repository inside of the workspace keeps its .git folder", async () => {
  const workspace = await fixture.prepare("r1", { repo: fixture.repository() });
  fixture.sh(workspace.path, "git init -q inner; echo 1 > inner/x");
  const tree = await treeOf(workspace);
  fixture.sh(workspace.path, "echo 2 > inner/x; echo new > inner/y");
  await restore(tree, workspace.path, true);
  expect(fixture.sh(workspace.path, "cat inner/x; ls inner; git -C inner rev-parse --git-dir")).toBe(
    "1\nx\n.git",
  );
});

test("the difference of two snapshots names what was added, modified and deleted, and its patch applies", async () => {
  const workspace = await fixture.prepare("r1", { repo: fixture.repository() });
  fixture.sh(workspace.path, `echo more >> a.txt; rm b.txt; printf '\\0\\1' > "new bin"`);
  const to = await treeOf(workspace);
  const run = fixture.run("r1");
  const { files, patch } = await diffTrees({ run, from: workspace.baseTree ?? "", to });
  expect(files).toEqual([
    { status: "M", path: "a.txt" },
    { status: "D", path: "b.txt" },
    { status: "A", path: "new bin" },
  ]);
  const target = path.join(fixture.root, "base");
  await restore(workspace.baseTree ?? "", target, false);
  fixture.sh(target, `git init -q; git apply <<'PATCH'\n${patch.toString()}\nPATCH`);
  expect(listing(target)).toBe(listing(workspace.path));
  expect(await diffTrees({ run, from: to, to })).toEqual({ files: [], patch: Buffer.alloc(0) });
});

test("a run's change is taken back without what somebody else changed since", async () => {
  mkdirSync(path.join(fixture.root, "folder"));
  fixture.sh("folder", "echo 1 > mine; echo 1 > theirs; echo 1 > gone; echo 1 > swap");
  const workspace = await fixture.prepare("r1", { dir: path.join(fixture.root, "folder") });
  fixture.sh("folder", "echo 2 > mine; rm gone; echo 2 > new; rm swap; mkdir swap; echo 2 > swap/in");
  const changed = await treeOf(workspace);
  fixture.sh("folder", "echo 3 > theirs; echo 3 > later");
  const tree = await revertTree({
    run: fixture.run("r1"),
    tree: await treeOf(workspace),
    source: workspace.baseTree ?? "",
    steps: [{ from: workspace.baseTree ?? "", to: changed }],
  });
  await restore(tree, workspace.path, true);
  expect(fixture.sh("folder", "grep . -r . | sort")).toBe(
    "./gone:1\n./later:3\n./mine:1\n./swap:1\n./theirs:3",
  );
});
