import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { draftPrefix } from "../../src/paths.ts";
import { finishWorkspace } from "../../src/workspace/finish.ts";
import { readPatch } from "../../src/workspace/patch-file.ts";
import type { Workspace } from "../../src/workspace/workspace.ts";
import { useFixture } from "./fixture.ts";

const fixture = useFixture();

/** Applies a run's patch to a fresh checkout of its base commit and returns that checkout. */
async function applied(runId: string, repo: string, base: string | null): Promise<string> {
  const patch = await readPatch(fixture.run(runId));
  const folder = path.join(fixture.root, `applied-${runId}`);
  fixture.sh(".", `git clone -q ${repo} ${folder}; git -C ${folder} checkout -q ${base}`);
  writeFileSync(path.join(fixture.root, `${runId}.patch`), patch ?? "");
  fixture.sh(folder, `git apply ${fixture.root}/${runId}.patch`);
  return folder;
}

/** What `diff` finds between two folders apart from git's own. */
function difference(one: string, other: string): string {
  return fixture.sh(".", `diff -r --no-dereference -x .git ${one} ${other} || true`);
}

test("dirty tree, detached HEAD, submodule and own commits: the patch holds the agent's work and nothing else", async () => {
  const library = fixture.repository("library");
  const repo = fixture.repository();
  fixture.sh(
    repo,
    `echo one > c.txt; git -c protocol.file.allow=always submodule --quiet add ${library} lib; git add .; git commit -qm sub
     git checkout -q --detach; git commit -q --allow-empty -m detached; echo mine >> c.txt; touch untracked.txt`,
  );
  const look =
    "git status --porcelain=v2 --branch; git for-each-ref; git stash list; git worktree list; sha1sum .git/index";
  const before = fixture.sh(repo, look);
  const workspace = await fixture.prepare("r1", { repo });
  expect(workspace.baseCommit).toBe(fixture.sh(repo, "git rev-parse HEAD"));
  expect(workspace.notes).toEqual(["1 modified and 1 untracked files of the checkout are not in the clone"]);
  expect(existsSync(path.join(workspace.path, "lib/a.txt"))).toBe(true);
  fixture.sh(
    workspace.path,
    "echo two > a.txt; git commit -qam own; echo two > b.txt; git checkout -q -b other; git add b.txt; echo new > n.txt",
  );
  const lookInside = "git status --porcelain=v2 --branch; sha1sum .git/index; git stash list";
  const inside = fixture.sh(workspace.path, lookInside);
  const products = await fixture.finish("r1", workspace, "fix/a");
  expect(products).toMatchObject({
    changedFiles: ["a.txt", "b.txt", "n.txt"],
    branch: "pawl/fix/a",
    notes: [],
  });
  expect(fixture.sh(workspace.path, lookInside)).toBe(inside);
  expect(fixture.sh(repo, look)).toBe(before);
  expect(fixture.sh(workspace.path, "git log --format='%an: %s' pawl/fix/a")).toBe(
    "pawl: Fix the test\nPerson: own\nPerson: detached\nPerson: sub\nPerson: first",
  );
  const changes = fixture.sh(workspace.path, `git diff --name-status ${workspace.baseCommit} pawl/fix/a`);
  expect(changes).toBe("M\ta.txt\nM\tb.txt\nA\tn.txt");
  expect(products.headCommit).toBe(fixture.sh(workspace.path, "git rev-parse pawl/fix/a"));
  expect(fixture.sh("data/runs/r1/git", "git rev-parse pawl/fix/a")).toBe(products.headCommit);
  expect(fixture.sh(workspace.path, "git fsck --strict 2>&1 | grep -v dangling || true")).toBe("");
  const checkout = await applied("r1", repo, workspace.baseCommit);
  expect(fixture.sh(checkout, "git status --porcelain; cat a.txt b.txt n.txt c.txt")).toBe(
    "M a.txt\n M b.txt\n?? n.txt\ntwo\ntwo\nnew\none",
  );
});

test("one repository in several runs gives each a patch and a branch with exactly its own file", async () => {
  const repo = fixture.repository();
  const before = fixture.sh(
    repo,
    "git status --porcelain=v2 --branch; git for-each-ref; git worktree list; ls .git",
  );
  const ids = ["r1", "r2", "r3", "r4"];
  const products = await Promise.all(
    ids.map(async (id) => {
      const workspace = await fixture.prepare(id, { repo });
      fixture.sh(workspace.path, `echo ${id} > ${id}.txt; git add .; git commit -qm ${id}`);
      return fixture.finish(id, workspace, "same-key");
    }),
  );
  for (const [at, id] of ids.entries()) {
    expect(products[at]).toMatchObject({ changedFiles: [`${id}.txt`], branch: "pawl/same-key", notes: [] });
    expect((await readPatch(fixture.run(id)))?.toString().match(/^diff .*$/gm)).toEqual([
      `diff --git a/${id}.txt b/${id}.txt`,
    ]);
    const { workspace } = fixture.run(id);
    expect(fixture.sh(workspace, "git rev-parse HEAD"), "all was committed").toBe(products[at]?.headCommit);
  }
  const look = "git status --porcelain=v2 --branch; git for-each-ref; git worktree list; ls .git";
  expect(fixture.sh(repo, look)).toBe(before);
});

test("binary files, deletions, modes, links, odd names and CRLF survive the patch and the branch", async () => {
  const repo = fixture.repository();
  fixture.sh(
    repo,
    `printf 'x\\r\\ny\\r\\n' > dos.txt; head -c 2000 /dev/urandom > bin; printf 'no newline' > 'sp ace'; echo s > run.sh
     git add .; git commit -qm more`,
  );
  const workspace = await fixture.prepare("r1", { repo });
  fixture.sh(
    workspace.path,
    `head -c 2000 /dev/urandom > bin; head -c 99 /dev/urandom > 'new bin'; rm a.txt; ln -s b.txt a.txt; rm b.txt
     printf 'x\\r\\nz\\r\\n' > dos.txt; printf 'changed' > 'sp ace'; chmod +x run.sh; printf 'caf\\xe9\\n' > latin
     mkdir -p deep/er; touch deep/er/empty; printf 'trailing  \\n\\t\\n' > ws; touch $'new\\nline' $'\\xe9'`,
  );
  const products = await fixture.finish("r1", workspace);
  expect(products.changedFiles).toContain("new\nline");
  expect(products.changedFiles).toHaveLength(12);
  expect(difference(workspace.path, await applied("r1", repo, workspace.baseCommit))).toBe("");
  fixture.sh(".", `git clone -q -b ${products.branch} ${workspace.path} of-branch`);
  expect(difference(workspace.path, path.join(fixture.root, "of-branch"))).toBe("");
});

test("line endings that .gitattributes converts stay as the repository has them on the branch", async () => {
  const repo = fixture.repository();
  fixture.sh(repo, "echo '* text eol=crlf' > .gitattributes; git add .; git commit -qm attributes");
  const workspace = await fixture.prepare("r1", { repo });
  fixture.sh(workspace.path, "printf 'one\\r\\ntwo\\r\\n' > a.txt");
  const products = await fixture.finish("r1", workspace);
  expect(products.changedFiles).toEqual(["a.txt"]);
  expect(
    fixture.sh(workspace.path, `git diff --stat --format= ${workspace.baseCommit} ${products.branch}`),
  ).toMatch(/1 file changed, 1 insertion\(\+\)$/);
  const checkout = await applied("r1", repo, workspace.baseCommit);
  expect(readFileSync(path.join(checkout, "a.txt"), "utf8")).toBe("one\r\ntwo\r\n");
});

test("an unchanged clone has its base as head, no branch and an empty patch", async () => {
  const workspace = await fixture.prepare("r1", { repo: fixture.repository() });
  expect(await fixture.finish("r1", workspace, "k")).toEqual({
    tree: workspace.baseTree,
    headCommit: workspace.baseCommit,
    branch: null,
    changedFiles: [],
    notes: [],
  });
  expect(fixture.sh(workspace.path, "git branch --list 'pawl*'")).toBe("");
  expect(await readPatch(fixture.run("r1"))).toHaveLength(0);
  expect(await readPatch(fixture.run("r2"))).toBeNull();
});

test("finishing twice gives the same branch, also after more work", async () => {
  const workspace = await fixture.prepare("r1", { repo: fixture.repository() });
  writeFileSync(path.join(workspace.path, "a.txt"), "two\n");
  await fixture.finish("r1", workspace, "k");
  writeFileSync(path.join(workspace.path, "b.txt"), "two\n");
  const again = await fixture.finish("r1", workspace, "k");
  expect(again).toMatchObject({ branch: "pawl/k", changedFiles: ["a.txt", "b.txt"] });
  expect(fixture.sh(workspace.path, "git for-each-ref --format='%(refname)' refs/heads; cat .git/HEAD")).toBe(
    "refs/heads/main\nrefs/heads/pawl/k\nref: refs/heads/main",
  );
});

test.each([
  ["no key", null, "true", "pawl/fix-the-test-r1"],
  ["a key that is no safe branch name", "Ünsafe key..lock", "true", "pawl/nsafe-key-lock-r1"],
  ["a key with an option's form", "-f", "true", "pawl/f-r1"],
  ["a key that ends in .lock", "x.lock", "true", "pawl/x-lock-r1"],
  ["a branch of that name made by the agent", "k", "git branch pawl/k", "pawl/k-r1"],
  ["a branch named pawl", "k", "git branch pawl", "pawl-k-r1"],
])("with %s the branch gets a name that is free", async (_, key, script, branch) => {
  const workspace = await fixture.prepare("r1", { repo: fixture.repository() });
  fixture.sh(workspace.path, `${script}; echo two > a.txt`);
  expect(await fixture.finish("r1", workspace, key)).toMatchObject({ branch, notes: [] });
  expect(fixture.sh(workspace.path, `git show ${branch}:a.txt`)).toBe("two");
});

test("a file that the agent committed although it is ignored is in the patch and on the branch", async () => {
  const repo = fixture.repository();
  fixture.sh(repo, "echo out > .gitignore; git add .; git commit -qm ignore");
  const workspace = await fixture.prepare("r1", { repo });
  fixture.sh(
    workspace.path,
    "mkdir out; echo x > out/x; git add -f out/x; git commit -qm x; echo y > out/y; echo z > a.txt",
  );
  const products = await fixture.finish("r1", workspace, "k");
  expect(products.changedFiles).toEqual(["a.txt", "out/x"]);
  expect(fixture.sh(workspace.path, "git ls-tree -r --name-only pawl/k")).toBe(
    ".gitignore\na.txt\nb.txt\nout/x",
  );
});

test("work that the agent committed and then took back is not on the branch", async () => {
  const workspace = await fixture.prepare("r1", { repo: fixture.repository() });
  fixture.sh(
    workspace.path,
    "echo two > a.txt; echo c > c.txt; git add .; git commit -qm own; echo one > a.txt; echo x > b.txt; rm c.txt",
  );
  const products = await fixture.finish("r1", workspace, "k");
  expect(products.changedFiles).toEqual(["b.txt"]);
  expect(fixture.sh(workspace.path, `git diff --name-only ${workspace.baseCommit} pawl/k`)).toBe("b.txt");
});

test("changes inside a submodule are in the patch and said not to be on the branch", async () => {
  const library = fixture.repository("library");
  const repo = fixture.repository();
  fixture.sh(
    repo,
    `git -c protocol.file.allow=always submodule --quiet add ${library} lib; git commit -qm sub`,
  );
  const workspace = await fixture.prepare("r1", { repo });
  fixture.sh(workspace.path, "echo two > a.txt; echo two > lib/a.txt");
  const products = await fixture.finish("r1", workspace, "k");
  expect(products.changedFiles).toEqual(["a.txt", "lib/a.txt"]);
  expect(products.notes).toEqual(["changes inside the submodule lib are in the patch, not on the branch"]);
  expect(fixture.sh(workspace.path, `git diff --name-only ${workspace.baseCommit} pawl/k`)).toBe("a.txt");
});

test("a folder in place gets changed files and a patch but no branch, and its repository stays as it was", async () => {
  const repo = fixture.repository();
  fixture.sh(repo, "echo mine > a.txt; mkdir was-empty");
  const look =
    "git --no-optional-locks status --porcelain=v2 --branch; git for-each-ref; sha1sum .git/index; find .git -type f | sort";
  const before = fixture.sh(repo, look);
  const workspace = await fixture.prepare("r1", { dir: repo });
  fixture.sh(repo, "echo two > b.txt; mkdir empty");
  const products = await fixture.finish("r1", workspace, "k");
  expect(products).toEqual({
    tree: expect.stringMatching(/^[0-9a-f]{40}$/),
    headCommit: workspace.baseCommit,
    branch: null,
    changedFiles: ["b.txt"],
    notes: ["empty folders, which no patch or branch can hold: empty"],
  });
  expect((await readPatch(fixture.run("r1")))?.toString()).toMatch(/^-one\n\+two$/m);
  fixture.sh(repo, "echo one > b.txt");
  expect(fixture.sh(repo, look)).toBe(before);
});

test("files made in an empty folder are a patch for any folder", async () => {
  const workspace = await fixture.prepare("r1", {});
  fixture.sh(
    workspace.path,
    "git init -q; mkdir -p sub/none; echo hi > sub/hello.py; git add .; git commit -qm own",
  );
  const products = await fixture.finish("r1", workspace, "k");
  expect(products).toMatchObject({
    changedFiles: ["sub/hello.py"],
    branch: null,
    headCommit: null,
    notes: ["empty folders, which no patch or branch can hold: sub/none"],
  });
  fixture.sh(".", "mkdir target; cd target; git apply ../data/runs/r1/final.patch");
  expect(readFileSync(path.join(fixture.root, "target/sub/hello.py"), "utf8")).toBe("hi\n");
});

const odd: [string, string, { changedFiles: string[] | null; branch: string | null }, RegExp][] = [
  [
    "its .git folder",
    "rm -rf .git; echo two > a.txt",
    { changedFiles: ["a.txt"], branch: null },
    /\.git folder is gone/,
  ],
  [
    "its branches",
    "rm -rf .git/refs .git/packed-refs .git/HEAD; echo two > a.txt",
    { changedFiles: ["a.txt"], branch: null },
    /repository cannot be read/,
  ],
  [
    "its objects",
    "rm -rf .git/objects; mkdir .git/objects; echo two > a.txt",
    { changedFiles: ["a.txt"], branch: null },
    /no branch in the clone: .* lost the commit/,
  ],
  ["the whole folder", "rm -rf $PWD", { changedFiles: null, branch: null }, /the workspace .* is gone/],
  [
    "all commits of its branch",
    "git checkout -q --orphan new; echo two > a.txt",
    { changedFiles: ["a.txt"], branch: "pawl/k" },
    /HEAD has no commits/,
  ],
  [
    "refs that stay inside",
    "mv .git/refs ../refs; ln -s $PWD/../refs .git/refs; echo two > a.txt",
    { changedFiles: ["a.txt"], branch: null },
    /no branch in the clone: .* is a link/,
  ],
];
test.each(odd)(
  "an agent that removed %s leaves what can be known, and a note",
  async (_, script, known, note) => {
    const workspace = await fixture.prepare("r1", { repo: fixture.repository() });
    fixture.sh(workspace.path, script);
    const products = await fixture.finish("r1", workspace, "k");
    expect(products).toMatchObject(known);
    expect(products.notes.join("\n")).toMatch(note);
    if (known.changedFiles !== null)
      expect((await readPatch(fixture.run("r1")))?.toString()).toMatch(/^\+two$/m);
  },
);

test("without a first snapshot the changed files are unknown, not none", async () => {
  const prepared = await fixture.prepare("r1", {});
  const workspace: Workspace = { ...prepared, baseTree: null };
  writeFileSync(path.join(workspace.path, "a.txt"), "x");
  expect(await fixture.finish("r1", workspace)).toMatchObject({ changedFiles: null, tree: null });
  rmSync(path.join(fixture.run("r1").dir, "git"), { recursive: true });
  const damaged = await fixture.finish("r1", prepared);
  expect(damaged).toMatchObject({ changedFiles: null, tree: null });
  expect(damaged.notes.join()).toMatch(/no snapshot of the workspace/);
});

test("an abort rejects with the signal's reason", async () => {
  const workspace = await fixture.prepare("r1", {});
  const reason = new Error("lease lost");
  const signal = AbortSignal.abort(reason);
  const options = { run: fixture.run("r1"), workspace, runId: "r1", key: null, title: "", signal };
  await expect(finishWorkspace(options)).rejects.toBe(reason);
});

test.each(["clone", "dir"])("the draft that a killed tool left is no change, in a %s", async (kind) => {
  const repo = fixture.repository();
  const workspace = await fixture.prepare("r1", kind === "clone" ? { repo } : { dir: repo });
  fixture.sh(workspace.path, `mkdir d; echo half > d/${draftPrefix}1.1; echo half > ${draftPrefix}2.1`);
  expect(await fixture.finish("r1", workspace)).toMatchObject({ changedFiles: [], branch: null });
  fixture.sh(workspace.path, "echo whole > d/new");
  const { changedFiles, headCommit } = await fixture.finish("r1", workspace);
  expect(changedFiles).toEqual(["d/new"]);
  expect((await readPatch(fixture.run("r1")))?.toString()).not.toContain("half");
  if (kind === "clone")
    expect(fixture.sh(workspace.path, `git ls-tree -r --name-only ${headCommit}`)).not.toContain(draftPrefix);
});
