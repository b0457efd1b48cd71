import { mkdirSync, renameSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { WorkspaceError } from "../../src/errors.ts";
import { recordFile } from "../../src/workspace/record.ts";
import { snapshot } from "../../src/workspace/snapshot.ts";
import { hasTree } from "../../src/workspace/snapshot-store.ts";
import { useFixture } from "./fixture.ts";

const fixture = useFixture();
const unknownTree = "0123456789012345678901234567890123456789";

describe("a run whose database goes on from a backup, without its other files", () => {
  test("begins again on its first commit, is told so, and keeps what was in its workspace", async () => {
    const repo = fixture.repository();
    const first = await fixture.prepare("r1", { repo });
    fixture.sh(first.path, "echo work > new");
    fixture.sh(repo, "echo two > a.txt; git commit -qam second");
    rmSync(fixture.run("r1").dir, { recursive: true });
    const { baseCommit } = first;
    const again = await fixture.prepare("r1", { repo, lastTree: unknownTree, baseCommit });
    expect(again).toMatchObject({ baseCommit, baseTree: first.baseTree });
    expect(again.reset).toMatch(/goes on from a backup, .* may lack all that was done in it/);
    expect(fixture.sh(again.path, "cat a.txt; ls")).toBe("one\na.txt\nb.txt");
    expect(fixture.sh(fixture.paths.workspaces, "cat r1.*.kept/new")).toBe("work");
  });

  test("goes on in its workspace where only the newest snapshot is missing", async () => {
    const first = await fixture.prepare("r1", {});
    fixture.sh(first.path, "echo work > new");
    const again = await fixture.prepare("r1", { lastTree: unknownTree });
    expect(again.reset).toContain("goes on from a backup");
    expect(fixture.sh(again.path, "cat new")).toBe("work");
    expect((await fixture.prepare("r1", { lastTree: first.baseTree })).reset).toBeUndefined();
  });

  test("begins again from its first snapshot where the workspace is missing too", async () => {
    const repo = fixture.repository();
    const first = await fixture.prepare("r1", { repo });
    rmSync(first.path, { recursive: true });
    const again = await fixture.prepare("r1", { repo, lastTree: unknownTree });
    expect(again.reset).toContain("goes on from a backup");
    expect(fixture.sh(again.path, "ls")).toBe("a.txt\nb.txt");
  });
});

describe("a run that has begun, without a record of its workspace", () => {
  test("keeps its snapshots and its files, and says where", async () => {
    const repo = fixture.repository();
    const first = await fixture.prepare("r1", { repo });
    fixture.sh(first.path, "echo work > new");
    const run = fixture.run("r1");
    const taken = await snapshot({ path: first.path, run });
    if ("skipped" in taken) throw new Error(taken.skipped);
    truncateSync(recordFile(run), 20);
    const { baseCommit } = first;
    const again = await fixture.prepare("r1", { repo, lastTree: taken.tree, baseCommit });
    expect(again.reset).toContain("without the snapshots of its files");
    const [, files = "", snapshots = ""] =
      /files are kept in (.*), .* kept in (.*)/.exec(again.notes[0] ?? "") ?? [];
    expect(fixture.sh(files, "cat new")).toBe("work");
    const read = `GIT_OBJECT_DIRECTORY=objects git --git-dir git cat-file blob ${taken.tree}`;
    expect(fixture.sh(snapshots, `${read}:new; ${read}:a.txt`)).toBe("work\none");
    expect((await fixture.prepare("r1", { repo, lastTree: first.baseTree })).notes).toEqual(again.notes);
  });

  test("is made again, nothing kept, where it has no snapshot yet", async () => {
    await fixture.prepare("r1", {});
    writeFileSync(recordFile(fixture.run("r1")), "");
    const again = await fixture.prepare("r1", {});
    expect(again).toMatchObject({ notes: [] });
    expect(again.reset).toBeUndefined();
  });

  test("is left as it is where the record cannot be read", async () => {
    const first = await fixture.prepare("r1", {});
    const run = fixture.run("r1");
    renameSync(recordFile(run), `${recordFile(run)}.away`);
    mkdirSync(recordFile(run));
    const again = fixture.prepare("r1", { lastTree: first.baseTree });
    await expect(again).rejects.toThrow(WorkspaceError);
    await expect(again).rejects.toThrow("the record of the workspace cannot be read: EISDIR");
    expect(await hasTree(run, first.baseTree ?? "")).toBe(true);
  });
});
