import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { freeWorkspace } from "../../src/workspace/free.ts";
import type { Products, Workspace, WorkspaceRequest } from "../../src/workspace/workspace.ts";
import { useFixture } from "./fixture.ts";

const fixture = useFixture();

/** A run that has ended after this script in its workspace. */
async function ended(source: Partial<WorkspaceRequest>, script: string) {
  const workspace = await fixture.prepare("r1", source);
  fixture.sh(workspace.path, script);
  return { workspace, products: await fixture.finish("r1", workspace, "k") };
}

const free = ({ tree, headCommit }: Products) => freeWorkspace({ run: fixture.run("r1"), tree, headCommit });

async function expectKept(
  { workspace, products }: { workspace: Workspace; products: Products },
  why: RegExp,
) {
  expect(await free(products)).toEqual({ kept: expect.stringMatching(why) });
  expect(existsSync(workspace.path)).toBe(true);
}

describe("the workspace of a run that has ended", () => {
  test("is deleted, and branch, other branches, tags and stash of the clone can be fetched from the run's repository", async () => {
    const repo = fixture.repository();
    const script =
      "echo '*.o' > .gitignore; echo x > big.o; git checkout -qb side; git commit -q --allow-empty -m aside; git tag mine; " +
      "git checkout -q main; echo two > b.txt; git stash -q; echo two > a.txt; git commit -qam own; echo three > c.txt";
    const { workspace, products } = await ended({ repo }, script);
    const heads = fixture.sh(workspace.path, "git rev-parse pawl/k side mine stash");
    const freed = await free(products);
    expect(freed).toEqual({ path: workspace.path, repository: path.join(fixture.run("r1").dir, "git") });
    expect(fixture.sh(fixture.paths.workspaces, "ls -A")).toBe("");
    if ("kept" in freed) throw new Error(freed.kept);
    fixture.sh(repo, `git fetch -q ${freed.repository} pawl/k:k '+refs/pawl/clone/*:refs/kept/*'`);
    const kept = "k refs/kept/heads/side refs/kept/tags/mine refs/kept/stash";
    expect(fixture.sh(repo, `git rev-parse ${kept}`)).toBe(heads);
    expect(fixture.sh(repo, "git show k:c.txt k:a.txt; git fsck --no-dangling 2>&1")).toBe("three\ntwo");
    expect(await free(products)).toEqual(freed);
  });

  test.each([
    ["a clone without a change", true, "true"],
    ["an empty folder", false, "echo work > file"],
  ])("is deleted: %s", async (_, isClone, script) => {
    const { workspace, products } = await ended(isClone ? { repo: fixture.repository() } : {}, script);
    expect(await free(products)).toMatchObject({ path: workspace.path });
    expect(existsSync(workspace.path)).toBe(false);
  });

  test.each([
    [
      "a repository that was made in an empty folder",
      false,
      "git init -q . && git commit -q --allow-empty -m own",
    ],
    ["a repository in a folder of a clone", true, "git init -q sub/deep && echo x > sub/deep/file"],
  ])("stays with the history of %s", async (_, isClone, script) => {
    const run = await ended(isClone ? { repo: fixture.repository() } : {}, script);
    await expectKept(run, /commits of its own/);
  });

  test("is not looked for where another data directory has it", async () => {
    const { workspace, products } = await ended({ repo: fixture.repository() }, "echo two > a.txt");
    const elsewhere = { ...fixture.run("r1"), workspace: `${workspace.path}-of-a-copy` };
    const { tree, headCommit } = products;
    const freed = await freeWorkspace({ run: elsewhere, tree, headCommit });
    expect(freed).toEqual({ kept: expect.stringMatching(/another place/) });
    expect(existsSync(workspace.path)).toBe(true);
  });

  test("is deleted to its end where a process died midway", async () => {
    const { workspace, products } = await ended({ repo: fixture.repository() }, "echo two > a.txt");
    renameSync(workspace.path, `${workspace.path}.left.tmp`);
    expect(await free(products)).toMatchObject({ path: workspace.path });
    expect(readdirSync(path.dirname(workspace.path))).toEqual([]);
  });

  test("stays where a file was changed after the run", async () => {
    const run = await ended({ repo: fixture.repository() }, "echo two > a.txt");
    fixture.sh(run.workspace.path, "echo by-hand > a.txt");
    await expectKept(run, /changed after the run/);
  });

  test("stays where it is a folder of the user's", async () => {
    const dir = path.join(fixture.root, "mine");
    mkdirSync(dir);
    await expectKept(await ended({ dir }, "echo work > file"), /folder of the user's/);
  });

  test.each([
    ["its repository is gone", "rm -rf .git; echo two > a.txt"],
    ["its repository is broken", "echo two > a.txt; git commit -qam own; rm -rf .git/objects"],
  ])("stays where %s", async (_, script) => {
    await expectKept(await ended({ repo: fixture.repository() }, script), /kept elsewhere/);
  });

  test("stays where its snapshot is missing", async () => {
    const run = await ended({}, "echo work > file");
    rmSync(fixture.run("r1").objects, { recursive: true });
    await expectKept(run, /kept elsewhere/);
  });

  test("stays where the patch or the record is missing", async () => {
    const run = await ended({ repo: fixture.repository() }, "echo two > a.txt");
    for (const [file, why] of [
      ["final.patch", /its change is not kept/],
      ["workspace.json", /no record/],
    ] as const) {
      rmSync(path.join(fixture.run("r1").dir, file));
      await expectKept(run, why);
    }
  });
});
