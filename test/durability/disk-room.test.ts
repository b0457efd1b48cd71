import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { runPawl } from "../helpers/pawl-process.ts";
import { createScenario, type Scenario, type Story } from "../helpers/scenario.ts";
import { waitUntil } from "../helpers/wait-until.ts";

const timeoutMs = 30_000;
const megabyte = 1024 ** 2;
/** Needs a disk of its own, which only root may mount. */
const canMount = tryMount();

function tryMount(): boolean {
  const folder = mkdtempSync(path.join(os.tmpdir(), "pawl-mount-"));
  const { status } = spawnSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]);
  if (status === 0) spawnSync("umount", [folder]);
  rmSync(folder, { recursive: true, force: true });
  return status === 0;
}

/** A scenario whose data directory, workspaces included, is on a disk of this size. */
async function onSmallDisk(story: Story, size: string): Promise<Scenario & { home: string }> {
  const scenario = await createScenario(story, { env: { PAWL_MIN_FREE_BYTES: "0" } });
  const home = scenario.env.PAWL_HOME ?? "";
  mkdirSync(home);
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${size}`, "tmpfs", home]);
  onTestFinished(() => void spawnSync("umount", ["--lazy", home]));
  return { ...scenario, home };
}

function freeBytes(folder: string): number {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
}

const floorAt = (bytes: number) => ({ PAWL_MIN_FREE_BYTES: String(Math.round(bytes)) });

/** Leaves 20 MB that git ignores, a change, and a commit of its own; `c` leaves nothing. */
const largeWork: Story = (key, done, run) => {
  const work =
    "echo big > .gitignore; head -c 20M /dev/zero > big; git add .; git -c user.name=a -c user.email=a@localhost commit -qm own; echo two > a.txt";
  return done === 0 && key !== "c" ? { toolCalls: [run(1, work)] } : { content: "all done" };
};

describe.skipIf(!canMount)("a disk with less room than minFreeBytes (needs root, for a tmpfs)", () => {
  test("is given room by the oldest workspaces of ended runs, whose change stays in reach", async () => {
    const scenario = await onSmallDisk(largeWork, "120m");
    const at = { cwd: scenario.folder, env: scenario.env };
    for (const key of ["a", "b"]) {
      await scenario.enqueue([key]);
      expect((await scenario.worker().ended()).code).toBe(0);
    }
    const [a, b] = [await show(scenario, "a"), await show(scenario, "b")];
    expect(a.workspace.freedAt).toBeUndefined();
    await scenario.enqueue(["c"]);
    const floor = floorAt(freeBytes(scenario.home) + 10 * megabyte);
    const worker = scenario.worker({ env: floor, args: [] });
    await worker.says("its workspace was deleted to make room");
    await waitUntil(async () => (await show(scenario, "c")).status === "succeeded", {
      timeoutMs,
      what: "the next run has room",
    });
    await scenario.json("stop");
    expect(existsSync(a.workspace.path)).toBe(false);
    expect(existsSync(b.workspace.path), "one was enough").toBe(true);

    const freed = await show(scenario, "a");
    expect(freed.workspace).toMatchObject({ branch: "pawl/a", freedAt: expect.stringMatching(/^20/) });
    const { stdout: shown } = await runPawl(["show", "a"], at);
    expect(shown).toContain("(deleted to make room at ");
    const repository = /branch +pawl\/a in (.*)/.exec(shown)?.[1] ?? "";
    const git = (...words: string[]) =>
      execFileSync("git", words, { cwd: scenario.repo, encoding: "utf8", stdio: "pipe" });
    git("fetch", "--quiet", repository, "pawl/a:from-a");
    expect(git("log", "--format=%s", "from-a").split("\n").slice(1, 3)).toEqual(["own", "base"]);
    expect((await runPawl(["diff", "a"], at)).stdout).toContain("+two");
    expect((await runPawl(["export", "a", "--format", "patch"], at)).stdout).toContain("+two");
    expect(await scenario.json("restore", "a", "--step", "1", "--to", "back")).toHaveLength(1);
    expect(existsSync(path.join(scenario.folder, "back", "a.txt"))).toBe(true);
    expect(await scenario.json("apply", "a")).toMatchObject([{ files: [".gitignore", "a.txt"] }]);
    const [fork] = await scenario.json("fork", "a", "--step", "1");
    expect((await scenario.worker().ended()).code).toBe(0);
    expect(await show(scenario, String(fork?.id))).toMatchObject({ status: "succeeded" });
  });

  test("holds back what is new, says so once and in status, and goes on when there is room", async () => {
    const scenario = await onSmallDisk((_key) => ({ content: "all done" }), "64m");
    const filler = path.join(scenario.home, "filler");
    writeFileSync(filler, Buffer.alloc(40 * megabyte));
    await scenario.enqueue(["k"]);
    const worker = scenario.worker({ env: floorAt(40 * megabyte), args: [] });
    await worker.says("nothing new is begun until there is room");
    const noted = async () => JSON.stringify(await scenario.json("status")).includes("takes nothing new");
    await waitUntil(noted, { timeoutMs, what: "status says it" });
    expect(await show(scenario, "k")).toMatchObject({ status: "queued", epoch: 0 });
    rmSync(filler);
    await worker.says("there is room on the disk again");
    await waitUntil(async () => (await show(scenario, "k")).status === "succeeded", {
      timeoutMs,
      what: "it goes on",
    });
    await waitUntil(async () => !(await noted()), { timeoutMs, what: "status says it no more" });
    expect(worker.stderr().split("nothing new is begun").length - 1).toBe(1);
    await scenario.json("stop");
  });
});

interface Shown {
  status: string;
  epoch: number;
  workspace: { path: string; freedAt?: string };
}

async function show(scenario: Scenario, key: string): Promise<Shown> {
  const [run] = await scenario.json("show", key);
  return run as unknown as Shown;
}
