import { rmSync } from "node:fs";
import { describe, expect, test } from "vitest";
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
