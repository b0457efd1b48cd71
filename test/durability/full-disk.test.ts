import { execFileSync } from "node:child_process";
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmdirSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import os from "node:os";
import path from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { expectSoundLogs } from "../helpers/invariants.ts";
import { type PawlProcess, runPawl } from "../helpers/pawl-process.ts";
import { createScenario, markOf, type Scenario, type Story } from "../helpers/scenario.ts";
import { waitUntil } from "../helpers/wait-until.ts";

// The data directory is on a small disk of its own, which a test fills to the last byte and empties again.

const diskBytes = 24 * 1024 * 1024;
const fillerBytes = [1024 * 1024, 4096];
const waitMs = 30_000;
const steps = 3;
/** The disk is noticed at the latest when the lease is renewed, at a quarter of it. */
const leaseMs = { kept: "8000", lost: "1000" };

/** Each step changes a file, so that snapshot, patch and branch have something to write. */
const changeFile = (done: number) => `echo ${done + 1} >>b.txt`;

describe.skipIf(!canMount())("on a full disk (needs to mount one)", () => {
  test("a worker says so, loses no result and no snapshot, and goes on when there is room", async () => {
    const disk = await createDisk(({ go }) => (_key, done, run) => {
      if (done === steps) return { content: "all done" };
      const more = done === 1 ? `; ${untilExists(go)}` : "";
      return { toolCalls: [run(done + 1, changeFile(done) + more)] };
    });
    const worker = disk.scenario.worker({ env: { PAWL_LEASE_MS: leaseMs.kept } });
    await waitUntil(() => disk.scenario.effects().length === 2, { timeoutMs: waitMs, what: "it works" });
    disk.fill();
    writeFileSync(disk.go, "");
    await worker.says("the disk is full");
    disk.free();
    await expectWhole(disk.scenario, worker);
  });

  test("what cannot be enqueued is refused in one line, and nothing of it is stored", async () => {
    const disk = await createDisk(() => simple);
    disk.fill();
    const at = { cwd: disk.scenario.folder, env: disk.scenario.env };
    const prompts = Array.from({ length: 500 }, (_, n) =>
      JSON.stringify({ prompt: "x".repeat(200), key: `n${n}` }),
    );
    writeFileSync(path.join(disk.scenario.folder, "many.jsonl"), prompts.join("\n"));
    const { code, stderr } = await runPawl(["enqueue", "--file", "many.jsonl"], at);
    expect({ code, lines: stderr.trim().split("\n") }).toEqual({
      code: 2,
      lines: [expect.stringMatching(/expected room on the disk .*make room and try again/)],
    });
    disk.free();
    expect(await disk.scenario.json("status")).toMatchObject([{ total: 1 }]);
    await expectWhole(disk.scenario, disk.scenario.worker());
  });

  test("a worker waits for room to make a workspace", async () => {
    const disk = await createDisk(() => simple);
    const asleep = disk.scenario.worker({ env: { PAWL_FAILPOINT: "claim.committed:1:stop" } });
    await asleep.stopped();
    disk.fill();
    process.kill(asleep.pid, "SIGCONT");
    await asleep.says("the disk is full");
    disk.free();
    await expectWhole(disk.scenario, asleep);
  });

  test("a worker waits for room to make the products of a run", async () => {
    const disk = await createDisk(() => simple);
    const asleep = disk.scenario.worker({ env: { PAWL_FAILPOINT: "finish.started:1:stop" } });
    await asleep.stopped();
    disk.fill();
    process.kill(asleep.pid, "SIGCONT");
    await asleep.says("the disk is full");
    disk.free();
    await expectWhole(disk.scenario, asleep);
  });

  test("a worker whose lease runs out meanwhile goes on under another", async () => {
    const disk = await createDisk(() => simple);
    const env = { PAWL_LEASE_MS: leaseMs.lost, PAWL_FAILPOINT: "command.finished:1:stop" };
    const worker = disk.scenario.worker({ env });
    await worker.stopped();
    disk.fill();
    process.kill(worker.pid, "SIGCONT");
    await worker.says("the disk is full");
    const lease = disk.scenario.database().prepare("SELECT max(lease_until) AS at FROM workers");
    const isOver = () => (lease.get() as { at: number }).at <= Date.now();
    await waitUntil(isOver, { timeoutMs: waitMs, what: "its lease runs out" });
    disk.free();
    await expectWhole(disk.scenario, worker);
    expect(worker.stderr()).toContain("lease has run out");
  });

  test("a worker that is killed there leaves all to the next", async () => {
    const disk = await createDisk(() => simple);
    const doomed = disk.scenario.worker({ env: { PAWL_FAILPOINT: "command.finished:1:stop" } });
    await doomed.stopped();
    disk.fill();
    process.kill(doomed.pid, "SIGCONT");
    await doomed.says("the disk is full");
    doomed.child.kill("SIGKILL");
    await doomed.ended();
    disk.free();
    await expectWhole(disk.scenario, disk.scenario.worker());
  });
});

const simple: Story = (_key, done, run) =>
  done === steps ? { content: "all done" } : { toolCalls: [run(done + 1, changeFile(done))] };

/** A scenario with one task whose data is on a disk that can be filled; commands wait for the file `go`, which is elsewhere. */
async function createDisk(storyOf: (paths: { go: string }) => Story) {
  const paths = { go: "" };
  const scenario = await createScenario((...facts) => storyOf(paths)(...facts));
  paths.go = path.join(scenario.folder, "go");
  const mount = path.join(scenario.folder, "data");
  mkdirSync(mount);
  mountDisk(mount);
  onTestFinished(() => unmount(mount));
  await scenario.enqueue(["k"]);
  const filler = path.join(mount, "filler");
  return { ...paths, scenario, fill: () => fill(filler), free: () => rmSync(filler) };
}

/** Writes until nothing more goes in. */
function fill(filler: string): void {
  const file = openSync(filler, "a");
  for (const size of fillerBytes) {
    const block = Buffer.alloc(size);
    try {
      for (let written = 0; written < diskBytes; written += writeSync(file, block));
    } catch (error) {
      expect(error).toMatchObject({ code: "ENOSPC" });
    }
  }
  closeSync(file);
}

/** The run is as one that never met a full disk. */
async function expectWhole(scenario: Scenario, worker: PawlProcess): Promise<void> {
  expect((await worker.ended()).code).toBe(0);
  const [run] = await scenario.json("show", "k");
  expect(run).toMatchObject({ status: "succeeded", result: "all done", steps: steps + 1 });
  expect(run).toMatchObject({ changedFiles: ["b.txt"], workspace: { branch: "pawl/k" } });
  const marks = Array.from({ length: steps }, (_, index) => markOf("k", index + 1));
  expect(scenario.effects()).toEqual(marks);
  const database = scenario.database();
  expectSoundLogs(database);
  const results = database.prepare("SELECT body FROM messages WHERE kind = 'result' ORDER BY seq").all();
  expect(results).toEqual(marks.map((mark) => ({ body: expect.stringContaining(mark) })));
  const snapshots = database.prepare("SELECT count(DISTINCT tree) AS n FROM snapshots").get();
  expect(snapshots, "the base and one a step").toEqual({ n: steps + 1 });
  const at = { cwd: scenario.folder, env: scenario.env };
  const patch = await runPawl(["export", "k", "--format", "patch"], at);
  expect(patch.stdout).toContain("+1\n+2\n+3\n");
}

function untilExists(file: string): string {
  return `for i in $(seq 300); do [ -e '${file}' ] && break; sleep 0.1; done`;
}

function mountDisk(folder: string): void {
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${diskBytes}`, "none", folder], { stdio: "pipe" });
}

function unmount(folder: string): void {
  // Lazily: a connection of the test may still be open.
  execFileSync("umount", ["--lazy", folder]);
}

/** Only root may mount, and not in every container. */
function canMount(): boolean {
  const folder = mkdtempSync(path.join(os.tmpdir(), "pawl-test-"));
  try {
    mountDisk(folder);
    unmount(folder);
    return true;
  } catch {
    return false;
  } finally {
    rmdirSync(folder);
  }
}
