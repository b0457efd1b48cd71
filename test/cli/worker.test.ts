import { existsSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { startAgentServer } from "../helpers/agent-server.ts";
import { commandLine } from "../helpers/command-line.ts";
import { waitUntil } from "../helpers/wait-until.ts";

test("--drain exits 0 whatever the outcomes, and shows each run's steps with its id", async () => {
  const { env } = await startAgentServer({
    broken: [{ error: { status: 400, message: "no such model" } }],
    fine: [{ tool: "bash", input: { command: "echo hi" } }, { text: "Fine." }],
  });
  const { pawl, json } = commandLine({ env });
  await json(["enqueue", "broken"]);
  const [fine] = await json(["enqueue", "fine"]);
  const { stdout, stderr, code } = await pawl(["worker", "--drain"]);
  expect({ stdout, code }).toEqual({ stdout: "", code: 0 });
  expect(stderr).toMatch(/worker \w+ takes up to 4 runs at once/);
  expect(stderr).toMatch(new RegExp(`${fine?.id} step 1 .* tokens`));
  expect(stderr).toMatch(new RegExp(`${fine?.id} +→ bash echo hi`));
  expect(stderr).toMatch(/failed \(model_error\) .*no such model/);
  expect(await json(["status"])).toMatchObject([{ byStatus: { failed: 1, succeeded: 1 }, workers: [] }]);
});

test("--drain does not wait for paused runs, nor for runs behind them in a folder", async () => {
  const { env } = await startAgentServer();
  const { pawl, json, folder } = commandLine({ env });
  await pawl(["enqueue", "x", "--key", "held", "--dir", folder]);
  await pawl(["pause", "held"]);
  await pawl(["enqueue", "y", "--key", "behind", "--dir", folder]);
  await pawl(["enqueue", "z", "--key", "free"]);
  expect((await pawl(["worker", "--drain"])).code).toBe(0);
  const statuses = (await json(["list"])).map(({ key, status }) => `${key} ${status}`);
  expect(statuses).toEqual(["free succeeded", "behind queued", "held waiting"]);
});

test("--drain with nothing enqueued exits at once", async () => {
  const { env } = await startAgentServer();
  const { pawl } = commandLine({ env });
  expect((await pawl(["worker", "--drain"])).code).toBe(0);
});

test("--priority goes before the order of enqueueing", async () => {
  const { env, requests } = await startAgentServer();
  const { pawl } = commandLine({ env });
  for (const [prompt, priority] of [
    ["low", "-1"],
    ["first", "0"],
    ["second", "0"],
    ["urgent", "10"],
  ] as const) {
    await pawl(["enqueue", prompt, `--priority=${priority}`]);
  }
  await pawl(["worker", "--drain", "--concurrency", "1"]);
  const order = requests.map(({ messages }) => String(messages[1]?.content).split("\n")[0]);
  expect(order).toEqual(["urgent", "first", "second", "low"]);
});

test.each([["abc"], ["0"], ["1.5"]])("--concurrency %s is refused in one line", async (value) => {
  const { pawl } = commandLine({ env: { OPENAI_API_KEY: "k" } });
  const { stderr, code } = await pawl(["worker", "--concurrency", value]);
  expect(code).toBe(2);
  expect(stderr).toMatch(/^pawl: --concurrency: expected a whole number .*, got .*$/);
});

test.each([
  ["SIGTERM", 0],
  ["SIGINT", 130],
] as const)(
  "%s lets the current step end, leaves the run resumable and exits with %i",
  async (signal, code) => {
    const { env } = await startAgentServer({
      slow: [
        { tool: "bash", input: { command: "touch began; until [ -e go ]; do sleep 0.1; done; touch ended" } },
        { text: "The answer." },
      ],
    });
    const { pawl, json, start, folder } = commandLine({ env });
    await pawl(["enqueue", "slow", "--dir", folder]);
    const worker = start(["worker"]);
    await waitUntil(() => existsSync(path.join(folder, "began")), {
      timeoutMs: 20_000,
      what: "the command runs",
    });
    let said = "";
    worker.stderr?.on("data", (chunk) => {
      said += chunk;
    });
    worker.kill(signal);
    await waitUntil(() => said.includes("stopping"), { timeoutMs: 20_000, what: "the worker stops" });
    writeFileSync(path.join(folder, "go"), "");
    const { exitCode, stderr } = await worker;
    expect(exitCode).toBe(code);
    expect(stderr).toContain("every run stays resumable");
    expect(existsSync(path.join(folder, "ended"))).toBe(true);
    expect(await json(["list"])).toMatchObject([{ status: "queued", steps: 1 }]);
    await pawl(["worker", "--drain"]);
    expect(await json(["list"])).toMatchObject([{ status: "succeeded", result: "The answer.", epoch: 2 }]);
  },
);

test("a worker goes on when nobody reads what it shows any more", async () => {
  const { env } = await startAgentServer({
    slow: [{ tool: "list_files" }, { text: "Fine.", delayMs: 1000 }],
  });
  const { pawl, json, start } = commandLine({ env });
  await pawl(["enqueue", "slow"]);
  const worker = start(["worker", "--drain"]);
  worker.stderr?.once("data", () => worker.stderr?.destroy());
  expect((await worker).exitCode).toBe(0);
  expect(await json(["list"])).toMatchObject([{ status: "succeeded" }]);
});
