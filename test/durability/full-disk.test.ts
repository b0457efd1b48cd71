import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { bodyOfLastRequest, killAll, visible } from "../helpers/file-story.ts";
import { expectSoundLogs } from "../helpers/invariants.ts";
import { type PawlProcess, runPawl } from "../helpers/pawl-process.ts";
import { createScenario, markOf, type Scenario, type Story } from "../helpers/scenario.ts";
import { canMount, mountSmallDisk } from "../helpers/small-disk.ts";
import { waitUntil } from "../helpers/wait-until.ts";

// The data directory is on a small disk of its own, which a test fills to the last byte and empties again.

const waitMs = 30_000;
const bigBytes = 8 * 1024 * 1024;
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

  test.each([
    ["make a workspace", "claim.committed"],
    ["make the products of a run", "finish.started"],
  ])("a worker waits for room to %s", async (_, failpoint) => {
    const disk = await createDisk(() => simple);
    const asleep = disk.scenario.worker({ env: { PAWL_FAILPOINT: `${failpoint}:1:stop` } });
    await asleep.stopped();
    disk.fill();
    process.kill(asleep.pid, "SIGCONT");
    await asleep.says("the disk is full");
    disk.free();
    await expectWhole(disk.scenario, asleep);
  });

  test("a worker that is started there waits, also where even opening the database needs room", async () => {
    const disk = await createDisk(() => simple);
    disk.fill();
    const worker = disk.scenario.worker();
    await worker.says("waits for room");
    disk.free();
    await expectWhole(disk.scenario, worker);
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

  test.each([
    ["to make a workspace", "claim.committed"],
    ["for a result", "command.finished"],
  ])("a worker that is stopped while it waits %s ends and leaves all to the next", async (_, failpoint) => {
    const disk = await createDisk(() => simple);
    const asked = disk.scenario.worker({ env: { PAWL_FAILPOINT: `${failpoint}:1:stop` } });
    await asked.stopped();
    disk.fill();
    process.kill(asked.pid, "SIGCONT");
    await asked.says("the disk is full");
    asked.child.kill("SIGTERM");
    const { code } = await asked.ended();
    expect({ code, said: asked.stderr().trim().split("\n").at(-1) }).toEqual({
      code: 2,
      said: expect.stringMatching(
        /^pawl: expected room on the disk of .*pawl\.db.* the next worker takes over/,
      ),
    });
    disk.free();
    await expectWhole(disk.scenario, disk.scenario.worker());
  });

  test("what an interrupted call changed is taken back once there is room", async () => {
    const scenario = await createScenario((_key, done, run) => {
      if (done > 0) return { content: "all done" };
      return { toolCalls: [run(1, "rm big.bin; echo half >half.txt; sleep 60")] };
    });
    const mount = path.join(scenario.folder, "small");
    const disk = mountSmallDisk(mount);
    const dir = path.join(mount, "work");
    mkdirSync(dir);
    writeFileSync(path.join(dir, "big.bin"), Buffer.alloc(bigBytes, "x"));
    await scenario.json("enqueue", "KEY=k", "--key", "k", "--dir", dir, "--on-interrupt", "rollback");
    const doomed = scenario.worker();
    const isHalf = () => existsSync(path.join(dir, "half.txt"));
    await waitUntil(isHalf, { timeoutMs: waitMs, what: "the command is half done" });
    doomed.child.kill("SIGKILL");
    await doomed.ended();
    killSupervisor(scenario);
    killAll(scenario);
    disk.fill();
    const next = scenario.worker();
    await next.says("the disk is full");
    disk.free();
    expect((await next.ended()).code).toBe(0);
    expect(visible(dir)).toEqual(["big.bin"]);
    expect(statSync(path.join(dir, "big.bin")).size).toBe(bigBytes);
    expect(bodyOfLastRequest(scenario)).toContain("was put back to how it was before this call");
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
  const disk = mountSmallDisk(path.join(scenario.folder, "data"));
  await scenario.enqueue(["k"]);
  return { ...paths, ...disk, scenario };
}

/** Before its command, so that it cannot record the end. */
function killSupervisor({ folder }: Scenario): void {
  const runs = path.join(folder, "data/runs");
  const started = readdirSync(runs, { recursive: true, encoding: "utf8" }).find((each) =>
    each.endsWith(".start"),
  );
  const supervisor = Number.parseInt(readFileSync(path.join(runs, started ?? ""), "utf8"), 10);
  process.kill(-supervisor, "SIGKILL");
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
