import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import path from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
import { WorkspaceError } from "../../src/errors.ts";
import { useFixture } from "./fixture.ts";

const fixture = useFixture();
const projectRoot = path.resolve(import.meta.dirname, "../..");

/** All that a user could notice of a run in the own repository. */
function stateOf(repository: string): string {
  return fixture.sh(
    repository,
    "git status --porcelain=v2 --branch; git for-each-ref; git worktree list; git config -l --local; sha1sum .git/index; ls .git",
  );
}

test("a clone stands on the source's HEAD, on its branch, with the source as origin", async () => {
  const repo = fixture.repository();
  const before = stateOf(repo);
  const workspace = await fixture.prepare("r1", { repo });
  expect(workspace).toEqual({
    kind: "clone",
    path: fixture.run("r1").workspace,
    baseCommit: fixture.sh(repo, "git rev-parse HEAD"),
    baseTree: fixture.sh(repo, "git rev-parse HEAD^{tree}"),
    notes: [],
  });
  expect(fixture.sh(workspace.path, "git symbolic-ref HEAD; git remote get-url origin; git status -sb")).toBe(
    `refs/heads/main\n${repo}\n## main...origin/main`,
  );
  expect(stateOf(repo)).toBe(before);
});

test("a clone shares its objects with the mirror by hard links, and works without the mirror", async () => {
  const repo = fixture.repository();
  const workspace = await fixture.prepare("r1", { repo });
  const pack = fixture.sh(workspace.path, "find .git/objects -type f | head -1");
  expect(statSync(path.join(workspace.path, pack)).nlink).toBeGreaterThan(1);
  expect(existsSync(path.join(workspace.path, ".git/objects/info/alternates"))).toBe(false);
  expect(statSync(path.join(workspace.path, ".git")).isDirectory()).toBe(true);
  rmSync(fixture.paths.repos, { recursive: true });
  expect(fixture.sh(workspace.path, "git fsck --full --strict && git log --format=%s")).toBe("first");
});

test("the second run of a source fetches what is new into the same mirror", async () => {
  const repo = fixture.repository();
  await fixture.prepare("r1", { repo });
  fixture.sh(repo, "echo two > a.txt; git commit -qam second");
  const workspace = await fixture.prepare("r2", { repo: `file://${repo}` });
  expect(workspace.baseCommit).toBe(fixture.sh(repo, "git rev-parse HEAD"));
  expect(readdirSync(fixture.paths.repos).filter((name) => name.endsWith(".git"))).toHaveLength(1);
});

test("a branch, a tag, a short commit and a commit that no branch reaches can all be the ref", async () => {
  const repo = fixture.repository();
  const first = fixture.sh(repo, "git tag -a v1 -m v1; git rev-parse HEAD");
  const lost = fixture.sh(
    repo,
    "git commit -q --allow-empty -m lost; git rev-parse HEAD; git reset -q --hard v1",
  );
  const side = fixture.sh(
    repo,
    "git checkout -qb side/x; git commit -qm s --allow-empty; git rev-parse HEAD",
  );
  fixture.sh(repo, "git checkout -q main");
  const refs: [string, string, string][] = [
    ["side/x", side, "refs/heads/side/x"],
    ["v1", first, "detached"],
    [first.slice(0, 8), first, "detached"],
    [lost, lost, "detached"],
  ];
  for (const [ref, commit, head] of refs) {
    const workspace = await fixture.prepare(`r-${ref.replace("/", "-")}`, { repo, ref });
    expect(workspace.baseCommit).toBe(commit);
    const found = fixture.sh(workspace.path, "git rev-parse HEAD; git symbolic-ref -q HEAD || echo detached");
    expect(found).toBe(`${commit}\n${head}`);
  }
});

test.each([
  ["a path that does not exist", "true", "nowhere", null, /no such repository: .*nowhere does not exist/],
  ["a folder without a repository", "mkdir plain", "plain", null, /plain is not a git repository/],
  ["a folder inside of a repository", "mkdir source/in", "source/in", null, /in is not a git repository/],
  ["a file", "touch file", "file", null, /file is not a git repository: it is a file/],
  ["a repository without commits", "git init -q new", "new", null, /new has no commits/],
  ["an unknown ref", "true", "source", "no-such", /source has no branch, tag or commit "no-such"/],
  ["a ref that looks like an option", "true", "source", "--all", /has no branch, tag or commit "--all"/],
  ["a damaged repository", "rm -r source/.git/objects/??", "source", null, /cannot clone .*source: /],
])("%s fails with one clear line and leaves nothing half-made", async (_, script, repo, ref, message) => {
  fixture.repository();
  fixture.sh(".", script);
  const failed = fixture.prepare("r1", { repo: path.join(fixture.root, repo), ref });
  await expect(failed).rejects.toThrow(WorkspaceError);
  await expect(failed).rejects.toThrow(message);
  await expect(failed).rejects.not.toThrow(/\n/);
  const names = [fixture.paths.repos, fixture.paths.workspaces].flatMap((folder) =>
    existsSync(folder) ? readdirSync(folder) : [],
  );
  expect(names.filter((name) => name.endsWith(".tmp"))).toEqual([]);
  expect(existsSync(fixture.run("r1").workspace)).toBe(false);
});

test("a failed first fetch leaves no mirror, and the next run of the source succeeds", async () => {
  const repo = fixture.repository();
  fixture.sh(repo, "mv .git/objects kept; mkdir .git/objects");
  await expect(fixture.prepare("r1", { repo })).rejects.toThrow(WorkspaceError);
  expect(readdirSync(fixture.paths.repos).filter((name) => !name.endsWith(".lock"))).toEqual([]);
  fixture.sh(repo, "rmdir .git/objects; mv kept .git/objects");
  expect((await fixture.prepare("r2", { repo })).kind).toBe("clone");
});

test("a source that asks for a password fails at once and its credentials are in no message", async () => {
  const server = createServer((_request, response) => {
    response.writeHead(401, { "WWW-Authenticate": 'Basic realm="x"' }).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  try {
    const plain = fixture.prepare("r1", { repo: `http://127.0.0.1:${port}/x.git` });
    await expect(plain).rejects.toThrow(/needs credentials that git does not have here/);
    const secret = fixture.prepare("r2", { repo: `http://user:hunter2@127.0.0.1:${port}/x.git` });
    await expect(secret).rejects.toThrow(WorkspaceError);
    await expect(secret).rejects.not.toThrow(/hunter2/);
  } finally {
    await new Promise((resolve) => server.close(resolve));
  }
});

test("an abort rejects with the signal's reason and leaves nothing half-made", async () => {
  const repo = fixture.repository();
  const { prepareWorkspace } = await import("../../src/workspace/prepare.ts");
  const reason = new Error("shutdown");
  const request = fixture.request("r1", { repo });
  await expect(prepareWorkspace(request, AbortSignal.abort(reason))).rejects.toBe(reason);
  const controller = new AbortController();
  const aborted = prepareWorkspace(request, controller.signal);
  setImmediate(() => controller.abort(reason));
  await expect(aborted).rejects.toBe(reason);
  expect((await prepareWorkspace(request)).kind).toBe("clone");
});

test("a dirty checkout is said and neither copied nor changed", async () => {
  const repo = fixture.repository();
  fixture.sh(
    repo,
    "echo mine > a.txt; echo mine > b.txt; git add b.txt; touch 'new file'; mkdir d; touch d/x",
  );
  const before = stateOf(repo);
  const workspace = await fixture.prepare("r1", { repo });
  expect(workspace.notes).toEqual(["2 modified and 2 untracked files of the checkout are not in the clone"]);
  expect(readFileSync(path.join(workspace.path, "a.txt"), "utf8")).toBe("one\n");
  expect(stateOf(repo)).toBe(before);
});

test("only branches, tags and HEAD of the source reach a clone", async () => {
  const repo = fixture.repository();
  fixture.sh(repo, "echo answer > a.txt; git stash -q");
  const stash = fixture.sh(repo, "git rev-parse refs/stash");
  const workspace = await fixture.prepare("r1", { repo });
  expect(fixture.sh(workspace.path, `git cat-file -e ${stash} 2>/dev/null || echo absent`)).toBe("absent");
});

test("submodules are filled, and the note says so where they cannot be", async () => {
  const library = fixture.repository("library");
  const repo = fixture.repository();
  const allow = "git -c protocol.file.allow=always";
  fixture.sh(repo, `${allow} submodule --quiet add ${library} lib; git commit -qm sub`);
  const filled = await fixture.prepare("r1", { repo });
  expect(readFileSync(path.join(filled.path, "lib/a.txt"), "utf8")).toBe("one\n");
  expect(filled.notes).toEqual([]);
  fixture.sh(".", "mv library elsewhere");
  const unfilled = await fixture.prepare("r2", { repo });
  expect(unfilled.notes).toEqual([expect.stringMatching(/^submodules could not be filled: /)]);
});

test("the agent commits as pawl where git knows no user, else as the user", async () => {
  const repo = fixture.repository();
  const author = "env -u GIT_AUTHOR_NAME -u GIT_AUTHOR_EMAIL -u GIT_COMMITTER_NAME -u GIT_COMMITTER_EMAIL";
  const commit = `${author} git commit -q --allow-empty -m x; git log -1 --format='%an <%ae>'`;
  const nobody = await fixture.prepare("r1", { repo });
  expect(fixture.sh(nobody.path, commit)).toBe("pawl <pawl@localhost>");
  writeFileSync(path.join(fixture.root, "home/.gitconfig"), "[user]\nname = Ada\nemail = ada@example.org\n");
  const known = await fixture.prepare("r2", { repo });
  expect(fixture.sh(known.path, commit)).toBe("Ada <ada@example.org>");
});

test("hooks and templates of the user do not run", async () => {
  const repo = fixture.repository();
  fixture.sh(
    "home",
    `mkdir -p hooks template/hooks
     printf '#!/bin/sh\\ntouch ${fixture.root}/ran\\n' > hooks/post-checkout
     cp hooks/post-checkout template/hooks/; cp hooks/post-checkout hooks/reference-transaction
     chmod +x hooks/* template/hooks/*
     git config --global core.hooksPath "$PWD/hooks"; git config --global init.templateDir "$PWD/template"`,
  );
  const workspace = await fixture.prepare("r1", { repo });
  expect(existsSync(path.join(fixture.root, "ran"))).toBe(false);
  expect(existsSync(path.join(workspace.path, ".git/hooks"))).toBe(false);
});

test("GIT_* variables of the caller do not redirect anything", async () => {
  const repo = fixture.repository();
  const other = fixture.repository("other");
  Object.assign(process.env, {
    GIT_DIR: `${other}/.git`,
    GIT_WORK_TREE: other,
    GIT_INDEX_FILE: `${other}/i`,
  });
  const workspace = await fixture.prepare("r1", { repo });
  for (const name of ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"]) delete process.env[name];
  expect(fixture.sh(workspace.path, "git remote get-url origin")).toBe(repo);
  expect(fixture.sh(other, "git status --porcelain; git remote; ls")).toBe("a.txt\nb.txt");
});

test("a prepared workspace is returned as it is, with the agent's work in it", async () => {
  const repo = fixture.repository();
  const first = await fixture.prepare("r1", { repo });
  writeFileSync(path.join(first.path, "a.txt"), "work");
  fixture.sh(repo, "git commit -q --allow-empty -m later; rm -rf .git");
  expect(await fixture.prepare("r1", { repo })).toEqual(first);
  expect(readFileSync(path.join(first.path, "a.txt"), "utf8")).toBe("work");
});

test("a half-made workspace, a stale lock file in it and a half-made mirror are made anew", async () => {
  const repo = fixture.repository();
  const { workspace } = fixture.run("r1");
  mkdirSync(path.join(workspace, ".git"), { recursive: true });
  writeFileSync(path.join(workspace, ".git/index.lock"), "");
  mkdirSync(`${workspace}.dead.tmp`);
  const name = `${createHash("sha256").update(repo).digest("hex").slice(0, 20)}.git`;
  mkdirSync(path.join(fixture.paths.repos, `${name}.dead.tmp`), { recursive: true });
  const made = await fixture.prepare("r1", { repo });
  expect(fixture.sh(made.path, "git status --porcelain; ls")).toBe("a.txt\nb.txt");
  expect(readdirSync(fixture.paths.workspaces)).toEqual(["r1"]);
  expect(readdirSync(fixture.paths.repos).filter((each) => !each.endsWith(".lock"))).toEqual([name]);
});

test("lock files that a killed git left in the mirror do not fail later runs", async () => {
  const repo = fixture.repository();
  await fixture.prepare("r1", { repo });
  const mirror = readdirSync(fixture.paths.repos).find((name) => name.endsWith(".git")) ?? "";
  fixture.sh(path.join(fixture.paths.repos, mirror), "touch refs/heads/main.lock HEAD.lock packed-refs.lock");
  fixture.sh(repo, "git commit -q --allow-empty -m second");
  const workspace = await fixture.prepare("r2", { repo });
  expect(fixture.sh(workspace.path, "git log -1 --format=%s")).toBe("second");
});

test("4 runs of one source in 2 processes each get their own clone, at the first and at a later fetch", async () => {
  const repo = fixture.repository();
  const script = path.join(fixture.root, "prepare.mjs");
  writeFileSync(
    script,
    `import { createJiti } from ${JSON.stringify(import.meta.resolve("jiti"))};
     const module = ${JSON.stringify(path.join(projectRoot, "src/workspace/prepare.ts"))};
     const { prepareWorkspace } = await createJiti(import.meta.url).import(module);
     const requests = JSON.parse(process.argv[2]);
     await Promise.all(requests.map((request) => prepareWorkspace(request)));`,
  );
  const before = stateOf(repo);
  const prepareAll = async (runs: string[][]) =>
    Promise.all(
      runs.map((ids) => {
        const requests = JSON.stringify(ids.map((id) => fixture.request(id, { repo })));
        return execa("node", [script, requests]);
      }),
    );
  await prepareAll([
    ["r1", "r2"],
    ["r3", "r4"],
  ]);
  expect(stateOf(repo)).toBe(before);
  fixture.sh(repo, "git commit -q --allow-empty -m second");
  await prepareAll([
    ["r5", "r6"],
    ["r7", "r7"],
  ]);
  for (const id of ["r1", "r2", "r3", "r4", "r5", "r6", "r7"]) {
    const { workspace } = fixture.run(id);
    expect(fixture.sh(workspace, "git status --porcelain; git log -1 --format=%s")).toBe(
      id < "r5" ? "first" : "second",
    );
  }
  expect(readdirSync(fixture.paths.workspaces)).toHaveLength(7);
});

test("a folder is worked in as it is, in a repository or not", async () => {
  mkdirSync(path.join(fixture.root, "plain"));
  const dir = path.join(fixture.root, "plain");
  const plain = await fixture.prepare("r1", { dir });
  expect(plain).toMatchObject({ kind: "dir", path: dir, baseCommit: null, notes: [] });
  expect(readdirSync(dir)).toEqual([]);
  const repo = fixture.repository();
  const before = stateOf(repo);
  const inside = await fixture.prepare("r2", { dir: repo });
  expect(inside.baseCommit).toBe(fixture.sh(repo, "git rev-parse HEAD"));
  expect(stateOf(repo)).toBe(before);
  await expect(fixture.prepare("r3", { dir: `${dir}/none` })).rejects.toThrow(/no such folder: .*none/);
  await expect(fixture.prepare("r4", { dir: `${repo}/a.txt` })).rejects.toThrow(/a.txt is a file/);
});

test("a task with neither gets an empty folder", async () => {
  const workspace = await fixture.prepare("r1", {});
  expect(workspace).toMatchObject({ kind: "empty", baseCommit: null, notes: [] });
  expect(readdirSync(workspace.path)).toEqual([]);
});
