import { writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { startAgentServer } from "../helpers/agent-server.ts";
import { commandLine } from "../helpers/command-line.ts";
import { makeRepository } from "../helpers/repository.ts";
import { waitUntil } from "../helpers/wait-until.ts";

const isoTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const runId = /^[0-9a-z]{14}$/;

test("where nothing was ever enqueued, status counts zero, list is empty, and nothing is made", async () => {
  const { pawl, json, folder } = commandLine();
  expect(await json(["status"])).toEqual([
    {
      dataDir: `${folder}/.pawl`,
      total: 0,
      byStatus: { queued: 0, running: 0, waiting: 0, succeeded: 0, failed: 0, cancelled: 0 },
      byReason: {},
      usage: {
        ...{ promptTokens: 0, completionTokens: 0, cachedTokens: 0 },
        ...{ costUsd: 0, pricedUsd: 0, unpricedRequests: 0 },
      },
      budgets: [],
      waiting: [],
      gates: [],
      workers: [],
    },
  ]);
  expect(await pawl(["list", "--json"])).toEqual({ stdout: "", stderr: "", code: 0 });
  expect((await pawl(["list"])).stderr).toContain("no runs in");
  for (const words of [
    ["show", "x"],
    ["logs", "x"],
    ["diff", "x"],
    ["cancel", "x"],
  ]) {
    const { stdout, stderr, code } = await pawl(words);
    expect({ stdout, code }).toEqual({ stdout: "", code: 2 });
    expect(stderr).toMatch(/^pawl: expected runs in .*\.pawl, got none: enqueue a task first/);
  }
  expect((await pawl(["status"])).stdout).toContain("0 runs");
});

test("PAWL_HOME that is no folder is wrong use that names it; one that does not exist yet holds no runs", async () => {
  const { pawl, folder } = commandLine({ files: { mine: "a file" } });
  for (const words of [["status"], ["list"], ["show", "x"], ["enqueue", "x"]]) {
    const { stdout, stderr, code } = await pawl(words, { env: { PAWL_HOME: "mine" } });
    expect({ stdout, code, lines: stderr.split("\n").length }).toEqual({ stdout: "", code: 2, lines: 1 });
    expect(stderr).toMatch(/^pawl: .*data directory /);
    expect(stderr).toContain(`${folder}/mine`);
  }
  const none = await pawl(["status"], { env: { PAWL_HOME: "none" } });
  expect(none).toMatchObject({ code: 0, stdout: expect.stringContaining("0 runs") });
});

test("show --json and list --json have exactly the fields of the contract", async () => {
  const { env } = await startAgentServer({
    greet: [{ tool: "write_file", input: { path: "hello.txt", content: "hello\n" } }, { text: "Written." }],
  });
  const { pawl, json, folder } = commandLine({ env });
  makeRepository(`${folder}/code`, { "a.txt": "a\n" });
  await pawl(["enqueue", "greet", "--repo", "code", "--key", "k", "--batch", "night"]);
  await pawl(["worker", "--drain"]);
  const [run] = await json(["show", "k"]);
  expect(run).toEqual({
    id: expect.stringMatching(runId),
    key: "k",
    batch: "night",
    attempt: 1,
    status: "succeeded",
    reason: "finished",
    class: "success",
    phase: "finished",
    images: [],
    steps: 2,
    maxSteps: 100,
    epoch: 1,
    model: "test-model",
    modelParameters: {},
    protocol: "native",
    environment: "local",
    workspace: {
      path: expect.stringContaining("/pawl/"),
      branch: "pawl/k",
      base: expect.stringMatching(/^[0-9a-f]{40}$/),
      head: expect.stringMatching(/^[0-9a-f]{40}$/),
    },
    changedFiles: ["hello.txt"],
    usage: {
      promptTokens: expect.any(Number),
      completionTokens: expect.any(Number),
      cachedTokens: 0,
      costUsd: null,
      pricedUsd: 0,
      unpricedRequests: 2,
    },
    waiting: null,
    result: "Written.",
    error: null,
    createdAt: expect.stringMatching(isoTime),
    startedAt: expect.stringMatching(isoTime),
    finishedAt: expect.stringMatching(isoTime),
  });
  expect(await json(["list", "--batch", "night", "--status", "succeeded", "--limit", "5"])).toEqual([run]);
  const people = (await pawl(["show", "k"])).stdout;
  for (const part of ["succeeded (finished)", "pawl/k", "hello.txt", "Written.", "claimed epoch 1"])
    expect(people).toContain(part);
});

test("a run is meant by its id, a unique prefix of it, or its key; a prefix of several is an error", async () => {
  const { pawl, json } = commandLine();
  const [one] = await json(["enqueue", "x", "--key", "a key, 名字"]);
  await json(["enqueue", "y"]);
  const id = String(one?.id);
  for (const reference of [id, id.slice(0, 13), "a key, 名字"]) {
    expect(await json(["show", reference])).toMatchObject([{ id }]);
  }
  const { stderr, code } = await pawl(["show", id.slice(0, 1)]);
  expect(code).toBe(2);
  expect(stderr).toMatch(/^pawl: expected one run .*, got \w{14}, \w{14}: see pawl list$/);
  expect((await pawl(["show", "nothing"])).code).toBe(2);
});

test("phase tells what a running run does: thinking, then acting; a queued one does nothing", async () => {
  const { env } = await startAgentServer({
    slow: [
      { tool: "bash", input: { command: "until [ -e go ]; do sleep 0.1; done" }, delayMs: 3000 },
      { text: "Fine." },
    ],
  });
  const { pawl, json, start, folder } = commandLine({ env });
  await pawl(["enqueue", "slow", "--key", "k", "--dir", folder]);
  expect(await json(["show", "k"])).toMatchObject([{ phase: null, status: "queued", startedAt: null }]);
  const worker = start(["worker", "--drain"]);
  const phaseIs = (phase: string) =>
    waitUntil(async () => (await json(["show", "k"]))[0]?.phase === phase, {
      timeoutMs: 20_000,
      what: `the phase is ${phase}`,
    });
  await phaseIs("thinking");
  await phaseIs("acting");
  expect((await pawl(["list"])).stdout).toContain("running (acting)");
  const [status] = await json(["status"]);
  expect(status).toMatchObject({
    byStatus: { running: 1 },
    workers: [{ pid: worker.pid, running: 1, leaseUntil: expect.stringMatching(isoTime) }],
  });
  writeFileSync(`${folder}/go`, "");
  await phaseIs("finished");
  await worker;
});

test("a paused run says what it waits for", async () => {
  const { pawl, json } = commandLine();
  await pawl(["enqueue", "x", "--key", "k"]);
  await pawl(["pause", "k"]);
  expect(await json(["show", "k"])).toMatchObject([
    { status: "waiting", waiting: { kind: "paused", wakeAt: null, note: null } },
  ]);
  expect((await pawl(["show", "k"])).stdout).toMatch(/waits for +paused · go on: pawl resume \w{14}/);
});

test("status --exit-code is 1 once some run failed", async () => {
  const { env } = await startAgentServer({ broken: [{ error: { status: 400, message: "no" } }] });
  const { pawl } = commandLine({ env });
  await pawl(["enqueue", "x", "--batch", "good"]);
  await pawl(["enqueue", "broken", "--batch", "bad"]);
  await pawl(["worker", "--drain"]);
  expect((await pawl(["status", "--exit-code", "--batch", "good"])).code).toBe(0);
  expect((await pawl(["status", "--exit-code"])).code).toBe(1);
  expect((await pawl(["status"])).code).toBe(0);
  const unknown = await pawl(["status", "--batch", "none"]);
  expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining("expected the name of a batch") });
});

test("status --watch --json gives a document a line for each change; with --exit-code until all have ended", async () => {
  const { env } = await startAgentServer({ slow: [{ text: "Fine.", delayMs: 1500 }] });
  const { pawl, start } = commandLine({ env });
  await pawl(["enqueue", "slow"]);
  const watch = start(["status", "--watch", "--json", "--exit-code"]);
  await new Promise((resolve) => watch.stdout?.once("data", resolve));
  await pawl(["worker", "--drain"]);
  const { stdout, exitCode } = await watch;
  expect(exitCode).toBe(0);
  const documents = String(stdout)
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { byStatus: Record<string, number> });
  const statuses = documents.map(({ byStatus }) =>
    Object.keys(byStatus).find((name) => byStatus[name] === 1),
  );
  expect(statuses[0]).toBe("queued");
  expect(statuses).toContain("running");
  expect(statuses.at(-1)).toBe("succeeded");
});

test("a killed worker is not counted as alive", async () => {
  const { env } = await startAgentServer({ slow: [{ text: "Fine.", delayMs: 30_000 }] });
  const { pawl, json, start } = commandLine({ env });
  await pawl(["enqueue", "slow"]);
  const worker = start(["worker"]);
  const workers = async () => (await json(["status"]))[0]?.workers as unknown[];
  await waitUntil(async () => (await workers()).length === 1, { timeoutMs: 20_000, what: "a worker" });
  worker.kill("SIGKILL");
  await worker;
  expect(await workers()).toEqual([]);
});
