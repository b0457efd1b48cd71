import path from "node:path";
import Database from "better-sqlite3";
import { describe, expect, test } from "vitest";
import { type CommandLine, commandLine } from "../helpers/command-line.ts";
import { type Refuse, startLimitedServer } from "../helpers/limited-server.ts";
import { startPawl } from "../helpers/pawl-process.ts";
import { waitUntil } from "../helpers/wait-until.ts";

const waitMs = 30_000;

/** A command line with a provider whose mood the test changes; `tasks` runs of `steps` requests are queued. */
async function setUp(options: {
  tasks: number;
  steps?: number;
  files?: Record<string, string>;
  flags?: string[];
}) {
  let refuse: Refuse = () => null;
  const server = await startLimitedServer({ steps: options.steps ?? 1, refuse: (facts) => refuse(facts) });
  const line = commandLine({ env: server.env, ...(options.files && { files: options.files }) });
  for (let number = 1; number <= options.tasks; number += 1) {
    const { code, stderr } = await line.pawl([
      "enqueue",
      "x",
      "--batch",
      "b",
      "--key",
      `k${number}`,
      ...(options.flags ?? []),
    ]);
    expect(stderr + code).toBe(`${stderr}0`);
  }
  const setMood = (mood: Refuse) => {
    refuse = mood;
  };
  return { ...line, server, setMood, work: () => line.pawl(["worker", "--drain", "--concurrency", "1"]) };
}

async function statuses({ json }: Pick<CommandLine, "json">) {
  const runs = await json(["list"]);
  return runs.map(({ status, waiting, attempt, steps }) => ({ status, waiting, attempt, steps }));
}

const noCredit: Refuse = () => ({
  status: 429,
  headers: { "retry-after": "7200" },
  body: { error: { message: "no credit left", code: "insufficient_quota" } },
});

describe("a key that is refused", () => {
  test("parks the whole batch after one request, and resume lets all of it go on", async () => {
    const scene = await setUp({ tasks: 4 });
    scene.setMood(() => ({ status: 401, body: { error: { message: "no such key" } } }));
    expect((await scene.work()).code).toBe(0);
    expect(scene.server.requests).toHaveLength(1);
    const note = expect.stringContaining(`check OPENAI_API_KEY for ${scene.server.url}`);
    const waiting = { kind: "auth", wakeAt: null, note };
    const parked = { status: "waiting", waiting, attempt: 1, steps: 0 };
    expect(await statuses(scene)).toEqual([parked, parked, parked, parked]);
    const model = `${new URL(scene.server.url).origin} main`;
    expect(await scene.json(["status"])).toMatchObject([
      { waiting: [{ ...waiting, count: 4 }], gates: [{ model, reason: "auth", until: null, note }] },
    ]);
    expect((await scene.pawl(["status"])).stdout).toContain("waits   4 auth until pawl resume: ");
    scene.setMood(() => null);
    await scene.pawl(["resume", "--batch", "b"]);
    await scene.work();
    expect((await statuses(scene)).map(({ status }) => status)).toEqual(Array(4).fill("succeeded"));
    expect(scene.server.requests).toHaveLength(5);
  });

  test("is asked for again by the next pawl run", async () => {
    const scene = await setUp({ tasks: 0 });
    scene.setMood(() => ({ status: 401 }));
    expect((await scene.pawl(["run", "x"])).code).toBe(1);
    scene.setMood(() => null);
    expect((await scene.pawl(["run", "y"])).code).toBe(0);
  });
});

describe("a quota that is used up", () => {
  test("parks the runs with the time when it is there again, and uses no attempt and no step", async () => {
    const scene = await setUp({ tasks: 3 });
    scene.setMood(noCredit);
    const before = Date.now();
    expect((await scene.work()).code).toBe(0);
    expect(scene.server.requests).toHaveLength(1);
    const runs = await scene.json(["list"]);
    expect(runs).toHaveLength(3);
    for (const { status, attempt, steps, waiting } of runs) {
      expect({ status, attempt, steps }).toEqual({ status: "waiting", attempt: 1, steps: 0 });
      const { kind, wakeAt, note } = waiting as { kind: string; wakeAt: string; note: string };
      expect(kind).toBe("quota");
      expect(note).toContain("no credit left");
      expect(Date.parse(wakeAt)).toBeGreaterThanOrEqual(before + 7_200_000);
    }
    expect((await scene.pawl(["status"])).stdout).toMatch(
      /waits {3}3 quota until \S+: the model server answered 429: no credit left/,
    );
  });

  test("lets them go on by themselves once that time has come", async () => {
    const scene = await setUp({ tasks: 3 });
    scene.setMood(noCredit);
    await scene.work();
    scene.setMood(() => null);
    const worker = startPawl(["worker"], { cwd: scene.folder, env: scene.env });
    await worker.says("takes up to");
    const database = new Database(path.join(scene.folder, ".pawl", "pawl.db"), { fileMustExist: true });
    // As if the two hours had passed.
    database.exec("UPDATE gates SET paused_until = 1; UPDATE runs SET wake_at = 1 WHERE status = 'waiting'");
    database.close();
    const isDone = async () => (await statuses(scene)).every(({ status }) => status === "succeeded");
    await waitUntil(isDone, { timeoutMs: waitMs, what: "all runs succeed" });
    expect(await scene.json(["status"])).toMatchObject([{ waiting: [], gates: [] }]);
    worker.child.kill("SIGTERM");
    await worker.ended();
  });
});

describe("a model in the place of another", () => {
  test("is named by task or configuration, answers meanwhile, and show tells how often", async () => {
    const scene = await setUp({ tasks: 1, steps: 3, flags: ["--fallback-models", "second,third"] });
    scene.setMood((facts) => (facts.model === "main" ? noCredit(facts) : null));
    const { stderr } = await scene.work();
    expect(stderr).toContain("model second is asked in place of main");
    expect(await statuses(scene)).toMatchObject([{ status: "succeeded", steps: 3 }]);
    expect(scene.server.requests.map(({ model }) => model)).toEqual(["main", "second", "second", "second"]);
    expect((await scene.pawl(["show", "k1"])).stdout).toMatch(/asked +main 1 time, second 3 times/);
  });
});

describe("allowed hours", () => {
  /** Hours of UTC that begin this many hours from now and take four. */
  function hoursFromNow(hours: number): string {
    const hour = (offset: number) =>
      `${String((new Date().getUTCHours() + offset + 24) % 24).padStart(2, "0")}:00`;
    return `${hour(hours)}-${hour(hours + 4)} UTC`;
  }

  test("hold runs back until they begin, without a request or a workspace", async () => {
    const scene = await setUp({ tasks: 2, flags: ["--allowed-hours", hoursFromNow(3)] });
    expect((await scene.work()).code).toBe(0);
    expect(scene.server.requests).toEqual([]);
    for (const { status, waiting } of await statuses(scene)) {
      expect(status).toBe("waiting");
      const { kind, wakeAt } = waiting as { kind: string; wakeAt: string };
      expect(kind).toBe("timer");
      expect(Date.parse(wakeAt)).toBeGreaterThan(Date.now() + 3_600_000);
    }
    expect((await scene.pawl(["status"])).stdout).toMatch(
      /waits {3}2 timer until \S+: outside of the allowed hours/,
    );
  });

  test("of the configuration hold for tasks without their own", async () => {
    const files = { "pawl.config.json": JSON.stringify({ allowedHours: hoursFromNow(3) }) };
    const scene = await setUp({ tasks: 1, files });
    await scene.pawl(["enqueue", "x", "--key", "now", "--allowed-hours", hoursFromNow(-1)]);
    await scene.work();
    const runs = await scene.json(["list"]);
    expect(runs.map(({ key, status }) => [key, status]).sort()).toEqual([
      ["k1", "waiting"],
      ["now", "succeeded"],
    ]);
  });

  test("are an error that says what is meant, where they are none", async () => {
    const { pawl } = commandLine({});
    const hours = await pawl(["enqueue", "x", "--allowed-hours", "night"]);
    expect(hours.code).toBe(2);
    expect(hours.stderr).toContain(
      '--allowed-hours: expected hours such as 22:00-06:00, or 22:00-06:00 Europe/Berlin, got "night"',
    );
    const start = await pawl(["enqueue", "x", "--allowed-hours", "22:00-06:00", "--latest-start", "12:00"]);
    expect(start.code).toBe(2);
    expect(start.stderr).toContain("expected latestStart to be within the allowed hours");
  });
});
