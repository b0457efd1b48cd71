import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { snapshot } from "../../src/workspace/snapshot.ts";
import type { Workspace } from "../../src/workspace/workspace.ts";
import { waitUntil } from "../helpers/wait-until.ts";
import { useFixture } from "./fixture.ts";

const fixture = useFixture();

async function treeOf(workspace: Workspace, limits: { maxFiles?: number; maxBytes?: number } = {}) {
  const taken = await snapshot({ path: workspace.path, run: fixture.run("r1"), ...limits });
  return "tree" in taken ? taken.tree : taken.skipped;
}

/** Reads a tree as anyone could later: from the run's own repository, without settings. */
function inStore(script: string): string {
  return fixture.sh("data/runs/r1/git", script);
}

function files(tree: string): string[] {
  return inStore(`git ls-tree -r --name-only ${tree}`).split("\n");
}

test("a snapshot is byte-exact whatever .gitattributes and the configuration convert", async () => {
  const repo = fixture.repository();
  fixture.sh(
    repo,
    `git config filter.shout.clean "tr a-z A-Z"; git config core.autocrlf true
     printf '* text eol=crlf\\nb.txt ident\\n*.loud filter=shout\\n*.wide working-tree-encoding=UTF-16LE\\n' > .gitattributes
     printf '$Id$\\n' > b.txt; printf 'x\\n' > c.wide; git add .; git commit -qm attributes`,
  );
  const workspace = await fixture.prepare("r1", { repo });
  fixture.sh(workspace.path, 'git config filter.shout.clean "tr a-z A-Z"; printf "quiet\\r\\n\\n" > d.loud');
  const tree = await treeOf(workspace);
  for (const file of ["a.txt", "b.txt", "c.wide", "d.loud"]) {
    const stored = inStore(`git cat-file blob ${tree}:${file} | base64`);
    expect(stored, file).toBe(readFileSync(path.join(workspace.path, file)).toString("base64"));
  }
  expect(readFileSync(path.join(workspace.path, "a.txt"), "utf8")).toBe("one\r\n");
});

test("nothing that the workspace's configuration names is executed", async () => {
  const workspace = await fixture.prepare("r1", { repo: fixture.repository() });
  const ran = path.join(fixture.root, "ran");
  fixture.sh(
    workspace.path,
    `printf '#!/bin/sh\\ntouch ${ran}\\ncat\\n' > .git/evil; chmod +x .git/evil
     mkdir .git/hooks; for hook in post-index-change reference-transaction post-commit pre-commit post-checkout; do cp .git/evil .git/hooks/$hook; done
     evil=$PWD/.git/evil
     git config filter.evil.clean $evil; git config diff.evil.textconv $evil; git config diff.external $evil
     git config core.pager $evil; git config uploadpack.packObjectsHook $evil; git config core.hooksPath $PWD/.git/hooks
     git config gpg.program $evil; git config commit.gpgSign true; git config core.sshCommand $evil
     git init -q inner; echo x > inner/x; git -C inner config core.fsmonitor $evil; cp -r .git/hooks inner/.git/
     printf '* filter=evil diff=evil\\n' > .gitattributes
     git config core.fsmonitor $evil`,
  );
  expect(existsSync(ran)).toBe(false);
  await treeOf(workspace);
  const products = await fixture.finish("r1", workspace);
  expect(products).toMatchObject({ changedFiles: [".gitattributes", "inner/x"], notes: [] });
  expect(products.branch).toMatch(/^pawl\//);
  expect(existsSync(ran)).toBe(false);
  fixture.sh(workspace.path, "git status");
  expect(existsSync(ran), "the trap works").toBe(true);
});

test(".gitignore is honoured, but tracked files are recorded even if it names them", async () => {
  const repo = fixture.repository();
  fixture.sh(
    repo,
    "mkdir out; echo 1 > out/kept; echo out > .gitignore; git add -f .; git commit -qm ignored",
  );
  for (const source of [{ repo }, { dir: repo }]) {
    rmSync(fixture.run("r1").dir, { recursive: true, force: true });
    const workspace = await fixture.prepare("r1", source);
    fixture.sh(workspace.path, "echo 2 > out/kept; echo 2 > out/left; echo 2 > new");
    const tree = await treeOf(workspace);
    expect(files(tree)).toEqual([".gitignore", "a.txt", "b.txt", "new", "out/kept"]);
    expect(inStore(`git cat-file blob ${tree}:out/kept`)).toBe("2");
  }
});

test("a folder below the top of a repository keeps the ignore rules it has there", async () => {
  const repo = fixture.repository();
  fixture.sh(
    repo,
    `printf 'dist\\n/packages/web/cache\\n/cache2\\n!keep.log\\n' > .gitignore; echo '*.tmp' >> .git/info/exclude
     mkdir -p packages/web; cd packages; echo '*.log' > .gitignore; cd web
     mkdir dist cache cache2; touch dist/x cache/x cache2/x a.log keep.log a.tmp b`,
  );
  const workspace = await fixture.prepare("r1", { dir: path.join(repo, "packages/web") });
  expect(files(await treeOf(workspace))).toEqual(["b", "cache2/x"]);
});

test(".git folders and .pawl stay out, and repositories inside are recorded as plain files", async () => {
  const library = fixture.repository("library");
  const repo = fixture.repository();
  fixture.sh(
    repo,
    `git -c protocol.file.allow=always submodule --quiet add ${library} lib; git commit -qm sub`,
  );
  const workspace = await fixture.prepare("r1", { repo });
  fixture.sh(
    workspace.path,
    `git init -q fresh; git init -q made; cd made; echo skip > .gitignore; echo x > x; touch skip
     git -c user.name=x -c user.email=x commit -q --allow-empty -m x; git init -q deep; echo y > deep/y
     cd ..; mkdir .pawl; touch .pawl/pawl.db; echo two > lib/a.txt; mkdir .Git2; touch .Git2/x 'back\\slash'`,
  );
  expect(files(await treeOf(workspace))).toEqual(
    [
      ...[".Git2/x", ".gitmodules", "a.txt", '"back\\\\slash"', "b.txt", "lib/a.txt", "lib/b.txt"],
      ...["made/.gitignore", "made/deep/y", "made/x"],
    ].sort((a, b) => (a.replace('"', "") < b.replace('"', "") ? -1 : 1)),
  );
});

test("files that become folders, folders that become links, modes and odd names are recorded as they are", async () => {
  const repo = fixture.repository();
  fixture.sh(repo, "mkdir d; echo x > d/x; git add .; git commit -qm d");
  const workspace = await fixture.prepare("r1", { repo });
  fixture.sh(
    workspace.path,
    `rm a.txt; mkdir a.txt; echo i > a.txt/in; mv d moved; ln -s moved d; chmod +x b.txt
     echo n > $'new\\nline'; echo l > $'latin\\xe9'; echo q > '"quote"'`,
  );
  const tree = await treeOf(workspace);
  expect(inStore(`git ls-tree -r ${tree} | sed 's/ .*\\t/ /'`).split("\n")).toEqual([
    '100644 "\\"quote\\""',
    "100644 a.txt/in",
    "100755 b.txt",
    "120000 d",
    '100644 "latin\\351"',
    "100644 moved/x",
    '100644 "new\\nline"',
  ]);
});

test("an unchanged workspace gives the same tree and writes no object; each change gives another", async () => {
  const workspace = await fixture.prepare("r1", { repo: fixture.repository() });
  const count = () => fixture.sh(fixture.run("r1").objects, "find . -type f | wc -l");
  const before = count();
  expect(await treeOf(workspace)).toBe(workspace.baseTree);
  expect(count()).toBe(before);
  const trees = new Set([workspace.baseTree]);
  for (let version = 0; version < 5; version++) {
    // The same size within the same moment: times alone do not show it.
    writeFileSync(path.join(workspace.path, "a.txt"), `v${version}\n`);
    trees.add(await treeOf(workspace));
  }
  expect(trees.size).toBe(6);
});

test("an index that a killed git left locked does not stop the next snapshot", async () => {
  const workspace = await fixture.prepare("r1", { repo: fixture.repository() });
  writeFileSync(`${fixture.run("r1").index}.lock`, "");
  writeFileSync(path.join(workspace.path, ".git/index.lock"), "");
  writeFileSync(path.join(workspace.path, "a.txt"), "changed");
  expect(inStore(`git cat-file blob ${await treeOf(workspace)}:a.txt`)).toBe("changed");
});

test("snapshots of one run taken at once all succeed", async () => {
  const workspace = await fixture.prepare("r1", { repo: fixture.repository() });
  writeFileSync(path.join(workspace.path, "a.txt"), "changed");
  const trees = await Promise.all([1, 2, 3].map(() => treeOf(workspace)));
  expect(new Set(trees).size).toBe(1);
  expect(trees[0]).toMatch(/^[0-9a-f]{40}$/);
});

test("nothing of a run is stored in the mirror", async () => {
  const workspace = await fixture.prepare("r1", { repo: fixture.repository() });
  const list = () => fixture.sh("data/repos", "find . -type f | sort");
  const before = list();
  fixture.sh(workspace.path, "echo agent > c.txt; git add .; git commit -qm own; echo more > d.txt");
  const products = await fixture.finish("r1", workspace, "k");
  expect(products.branch).toBe("pawl/k");
  expect(list()).toBe(before);
});

test("above the limits of files or bytes there is no snapshot, and the reason is given", async () => {
  const workspace = await fixture.prepare("r1", {});
  fixture.sh(workspace.path, "head -c 3000 /dev/zero > big; touch one two");
  expect(await treeOf(workspace, { maxFiles: 2 })).toBe("3 new or changed files, more than 2");
  expect(await treeOf(workspace, { maxBytes: 2999 })).toBe("more than 2999 bytes of new or changed files");
  expect(files(await treeOf(workspace, { maxFiles: 3, maxBytes: 3000 }))).toEqual(["big", "one", "two"]);
});

test.skipIf(process.getuid?.() === 0)("a file that cannot be read is left out and said", async () => {
  const workspace = await fixture.prepare("r1", {});
  fixture.sh(workspace.path, "echo x > open; echo x > shut; chmod 0 shut");
  const taken = await snapshot({ path: workspace.path, run: fixture.run("r1") });
  expect(taken).toMatchObject({ notes: ["1 file could not be read, and not recorded"] });
});

test("files that were written with the index are read once more, and then believed by their times", async () => {
  const workspace = await fixture.prepare("r1", { repo: fixture.repository() });
  const { index } = fixture.run("r1");
  const secondOf = (file: string) => Math.floor(statSync(file).mtimeMs / 1000);
  await waitUntil(() => Math.floor(Date.now() / 1000) > secondOf(index), {
    timeoutMs: 5000,
    what: "the next second",
  });
  expect(await treeOf(workspace)).toBe(workspace.baseTree);
  expect(secondOf(index)).toBeGreaterThan(secondOf(path.join(workspace.path, "a.txt")));
  const { mtimeMs } = statSync(index);
  expect(await treeOf(workspace)).toBe(workspace.baseTree);
  expect(statSync(index).mtimeMs).toBe(mtimeMs);
});
