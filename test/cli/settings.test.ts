import { existsSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { startAgentServer } from "../helpers/agent-server.ts";
import { commandLine, type Finished } from "../helpers/command-line.ts";

function expectOneLine({ stdout, stderr, code }: Finished): void {
  expect({ stdout, code }).toEqual({ stdout: "", code: 2 });
  expect(stderr.split("\n")).toHaveLength(1);
  expect(stderr).toMatch(/^pawl: /);
}

test.each([["run", "x"], ["worker"], ["worker", "--drain"]])(
  "pawl %s without a key is one line that names OPENAI_API_KEY and the other keys there are",
  async (...words) => {
    const { pawl, folder } = commandLine({ env: { DEEPSEEK_API_KEY: "sk-secret", MY_API_KEY: "m" } });
    const result = await pawl(words);
    expectOneLine(result);
    expect(result.stderr).toContain("OPENAI_API_KEY");
    expect(result.stderr).toContain(
      "DEEPSEEK_API_KEY (provider deepseek: PAWL_PROVIDER=deepseek), MY_API_KEY",
    );
    expect(result.stderr).not.toContain("sk-secret");
    if (words[0] === "run") expect(existsSync(path.join(folder, ".pawl"))).toBe(false);
  },
);

test("a base URL without a model is one line that says what to set, and nothing is enqueued", async () => {
  const { url } = await startAgentServer();
  const { pawl, folder } = commandLine({ env: { OPENAI_BASE_URL: url } });
  const result = await pawl(["run", "x"]);
  expectOneLine(result);
  expect(result.stderr).toMatch(/expected a model, as a base URL is set.*OPENAI_MODEL/);
  expect(existsSync(path.join(folder, ".pawl"))).toBe(false);
});

test("a worker without key leaves what is enqueued untouched, and a later one with a key does it", async () => {
  const { env } = await startAgentServer();
  const { pawl, json } = commandLine();
  const enqueued = await pawl(["enqueue", "x"]);
  expect(enqueued.code).toBe(0);
  const refused = await pawl(["worker", "--drain"]);
  expectOneLine(refused);
  expect(await json(["list"])).toMatchObject([{ status: "queued", epoch: 0 }]);
  const worked = await pawl(["worker", "--drain"], { env });
  expect(worked.code).toBe(0);
  expect(await json(["list"])).toMatchObject([{ status: "succeeded" }]);
});

test("a worker without model takes tasks that name theirs, and is refused where one names none", async () => {
  const { url, requests } = await startAgentServer();
  const { pawl } = commandLine({ env: { OPENAI_BASE_URL: url } });
  await pawl(["enqueue", "x", "--model", "named"]);
  expect((await pawl(["worker", "--drain"])).code).toBe(0);
  expect(requests.map(({ model }) => model)).toEqual(["named"]);
  await pawl(["enqueue", "y"]);
  expectOneLine(await pawl(["worker", "--drain"]));
});

test("a run that lacks a model only later waits for a person, with what is missing, and goes on when resumed", async () => {
  const { url, env } = await startAgentServer();
  const { pawl, json, start } = commandLine({ env: { OPENAI_BASE_URL: url } });
  await pawl(["enqueue", "x", "--model", "named"]);
  const worker = start(["worker"]);
  await expect.poll(() => json(["list"]), { timeout: 20_000 }).toMatchObject([{ status: "succeeded" }]);
  await pawl(["enqueue", "y", "--key", "late"]);
  await expect
    .poll(() => json(["show", "late"]), { timeout: 20_000 })
    .toMatchObject([
      { status: "waiting", waiting: { kind: "auth", note: expect.stringContaining("OPENAI_MODEL") } },
    ]);
  worker.kill("SIGTERM");
  expect((await worker).exitCode).toBe(0);
  await pawl(["resume", "late"]);
  expect((await pawl(["worker", "--drain"], { env })).code).toBe(0);
  expect(await json(["show", "late"])).toMatchObject([{ status: "succeeded" }]);
});

test.each([
  ["pawl.config.json", (url: string) => JSON.stringify({ baseUrl: url, model: "from-json" }), "from-json"],
  ["pawl.config.yaml", (url: string) => `baseUrl: ${url}\nmodel: from-yaml\n`, "from-yaml"],
  ["pawl.config.js", (url: string) => `module.exports = { baseUrl: "${url}", model: "from-js" };`, "from-js"],
  [
    "pawl.config.ts",
    (url: string) =>
      `import type { Settings } from "pawl";\nexport default { baseUrl: "${url}", model: "from-ts" } satisfies Settings;`,
    "from-ts",
  ],
])("settings come from %s; a local base URL needs no key", async (file, content, model) => {
  const { url, requests } = await startAgentServer();
  const { pawl } = commandLine({ files: { [file]: content(url) } });
  const { stderr, code } = await pawl(["run", "x"]);
  expect(code, stderr).toBe(0);
  expect(requests.map((request) => request.model)).toEqual([model]);
});

test("flags go before the environment, that before .env, and that before the configuration file", async () => {
  const { url, requests } = await startAgentServer();
  const files = {
    "pawl.config.json": JSON.stringify({ baseUrl: "http://127.0.0.1:1/v1", model: "file", maxSteps: 7 }),
    ".env": `OPENAI_BASE_URL=${url}\nOPENAI_MODEL=dotenv\n`,
  };
  const { pawl, json } = commandLine({ files });
  await pawl(["run", "x"]);
  await pawl(["run", "x"], { env: { OPENAI_MODEL: "environment" } });
  await pawl(["run", "x", "--model", "flag"], { env: { OPENAI_MODEL: "environment" } });
  const flags = ["--model", "flag", "--base-url", url, "--max-steps", "3"];
  await pawl(["run", "x", ...flags], { env: { OPENAI_BASE_URL: "http://127.0.0.1:2/v1" } });
  expect(requests.map(({ model }) => model)).toEqual(["dotenv", "environment", "flag", "flag"]);
  expect(await json(["list"])).toMatchObject([3, 7, 7, 7].map((maxSteps) => ({ maxSteps })));
});

test("the system prompt is the file the task names, else the one of the configuration", async () => {
  const { env, requests } = await startAgentServer();
  const files = {
    "prompts/own.md": "Speak like a pirate.\n",
    "prompts/task.md": "Speak like a poet.\n",
    "pawl.config.json": JSON.stringify({ systemPrompt: "prompts/own.md" }),
  };
  const { pawl } = commandLine({ env, files });
  await pawl(["run", "x"]);
  await pawl(["run", "x", "--system-prompt", "prompts/task.md"]);
  const prompts = requests.map(({ messages }) => messages[0]);
  expect(prompts).toMatchObject([
    { role: "system", content: expect.stringContaining("Speak like a pirate.") },
    { role: "system", content: expect.stringContaining("Speak like a poet.") },
  ]);
});

test.each([
  [{ "pawl.config.json": '{ "tools": ["nothing.ts"] }' }, [], "nothing.ts: expected a module"],
  [{}, ["--tools", "bash,nothing"], "expected the name of a tool (bash, "],
])("a tool that does not exist is noticed before anything is enqueued", async (files, flags, message) => {
  const { env } = await startAgentServer();
  const { pawl, json } = commandLine({ env, files });
  const result = await pawl(["run", "x", ...flags]);
  expectOneLine(result);
  expect(result.stderr).toContain(message);
  expect(await json(["list"])).toEqual([]);
});
