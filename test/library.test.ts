import { cpSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
import { startAgentServer } from "./helpers/agent-server.ts";
import { type CommandLine, commandLine } from "./helpers/command-line.ts";

const root = path.join(import.meta.dirname, "..");

/** A project of a user's with the package in its node_modules, as npm would put it there. */
function userProject(files: Record<string, string>, env: Record<string, string>): CommandLine {
  const line = commandLine({ files, env });
  const installed = path.join(line.folder, "node_modules", "pawl");
  mkdirSync(installed, { recursive: true });
  for (const part of ["dist", "migrations", "package.json"]) {
    cpSync(path.join(root, part), path.join(installed, part), { recursive: true });
  }
  symlinkSync(path.join(root, "node_modules"), path.join(installed, "node_modules"));
  return line;
}

function node({ folder, env }: CommandLine, file: string) {
  const options = { cwd: folder, env, extendEnv: false, reject: false, timeout: 40_000 } as const;
  return execa(process.execPath, [file], options);
}

test("an agent with a model and tools runs in ten lines", async () => {
  const { env, requests } = await startAgentServer({
    "What is 6 times 7?": [{ tool: "multiply", input: { a: 6, b: 7 } }, { text: "It is 42." }],
  });
  const agent = `
import { defineTool, runAgent } from "pawl";
const multiply = defineTool({
  name: "multiply",
  description: "Multiplies two numbers.",
  parameters: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] },
  run: async ({ a, b }) => String(a * b),
});
const run = await runAgent({ prompt: "What is 6 times 7?" }, { tools: [multiply] });
console.log(run.status, run.result);
`;
  const project = userProject({ "agent.mjs": agent }, env);
  expect(await node(project, "agent.mjs")).toMatchObject({ stdout: "succeeded It is 42.", stderr: "" });
  expect(requests[1]?.messages.at(-1)).toMatchObject({ role: "tool", content: "42" });
});

test("a tool in TypeScript, named in the configuration, imports the library by its name; its errors are known", async () => {
  const { env, requests } = await startAgentServer({
    look: [
      { tool: "stock", input: { item: "bolt" } },
      { tool: "stock", input: { item: "bomb" } },
      { text: "?" },
    ],
  });
  const stock = `
import { defineTool, RecoverableError, TerminatingError, type ToolContext } from "pawl";
interface Item { item: string }
export default defineTool({
  name: "stock",
  description: "Says how many of an item there are.",
  parameters: { type: "object", properties: { item: { type: "string" } }, required: ["item"] },
  class: "pure",
  async run(input, context: ToolContext): Promise<string> {
    const { item } = input as unknown as Item;
    if (item === "bomb") throw new TerminatingError("no such thing is sold here");
    if (item === "bolt") throw new RecoverableError("say which size of " + item + " in " + context.callId);
    return "7";
  },
});
`;
  const files = {
    "tools/stock.ts": stock,
    "pawl.config.json": JSON.stringify({ tools: ["tools/stock.ts"] }),
  };
  const { pawl, json } = userProject(files, env);
  expect((await pawl(["run", "look", "--key", "k"])).code).toBe(1);
  expect(requests[1]?.messages.at(-1)).toMatchObject({
    role: "tool",
    content: expect.stringContaining("say which size of bolt in 1.1"),
  });
  expect(await json(["show", "k"])).toMatchObject([
    { status: "failed", reason: "ended_by_tool", class: "agent", error: "no such thing is sold here" },
  ]);
});

test("a model of one's own works in place of the configured one, and needs no key", async () => {
  const agent = `
import { call, runAgent, say, scriptedModel } from "pawl";
const model = scriptedModel(({ messages }) =>
  messages.at(-1).role === "tool" ? say("There it is.") : call("write_file", { path: "a.txt", content: "a" }));
const run = await runAgent({ prompt: "write a.txt", key: "k" }, { model });
console.log(run.result, run.changedFiles.join(), model.callCount());
`;
  const project = userProject({ "agent.mjs": agent }, {});
  expect(await node(project, "agent.mjs")).toMatchObject({ stdout: "There it is. a.txt 2", stderr: "" });
});

test("settings that no run could begin with are a ConfigError, and nothing is enqueued", async () => {
  const agent = `
import { ConfigError, openPawl, runAgent, say, scriptedModel } from "pawl";
const model = scriptedModel(() => say("hello"));
for (const [task, options] of [
  [{ prompt: "x" }],
  [{ prompt: "x", tools: ["nothing"] }, { model }],
  [{ prompt: "x", maxStep: 3 }, { model }],
]) {
  await runAgent(task, options).catch((error) => console.log(error instanceof ConfigError, error.message));
}
const pawl = await openPawl();
await pawl.startWorker().catch((error) => console.log(error instanceof ConfigError));
console.log((await pawl.getStatus()).total);
await pawl.close();
`;
  const project = userProject({ "agent.mjs": agent }, {});
  const { stdout, stderr } = await node(project, "agent.mjs");
  expect(stderr).toBe("");
  expect(stdout.split("\n")).toEqual([
    expect.stringMatching(/^true expected a key in OPENAI_API_KEY/),
    expect.stringMatching(/^true expected the name of a tool .*, got nothing/),
    'true maxStep: unknown (did you mean "maxSteps"?)',
    "true",
    "0",
  ]);
});

test("what the library exports is typed for a strict TypeScript project", async () => {
  const program = `
import { defineTool, openPawl, type RunReport, runAgent, type Settings } from "pawl";
export default { model: "m", tools: ["./tool.ts"], maxSteps: 3 } satisfies Settings;
const tool = defineTool({ name: "t", description: "d", parameters: { type: "object" }, run: async () => "x" });
const run: RunReport = await runAgent({ prompt: "x", repo: ".", priority: 1 }, { tools: [tool] });
const phase: "thinking" | "acting" | "observing" | "finished" | null = run.phase;
const pawl = await openPawl();
const [created] = await pawl.enqueue([{ prompt: "x" }]);
const isNew: boolean = created?.created ?? false;
// @ts-expect-error a task has no such field
await pawl.enqueue({ prompt: "x", maxStep: 3 });
console.log(phase, isNew, (await pawl.getStatus()).byStatus);
`;
  const compilerOptions = {
    strict: true,
    module: "NodeNext",
    target: "ES2022",
    noEmit: true,
    types: ["node"],
    skipLibCheck: true,
  };
  const { folder } = userProject(
    { "program.mts": program, "tsconfig.json": JSON.stringify({ compilerOptions, files: ["program.mts"] }) },
    {},
  );
  mkdirSync(path.join(folder, "node_modules", "@types"));
  symlinkSync(
    path.join(root, "node_modules", "@types", "node"),
    path.join(folder, "node_modules", "@types", "node"),
  );
  writeFileSync(path.join(folder, "package.json"), '{ "type": "module" }');
  const tsc = path.join(root, "node_modules", "typescript", "bin", "tsc");
  const { stdout, exitCode } = await execa(process.execPath, [tsc, "-p", folder], {
    reject: false,
    cwd: folder,
  });
  expect({ stdout, exitCode }).toEqual({ stdout: "", exitCode: 0 });
});

test("closing stops the workers that still run, and wrong use is a ConfigError", async () => {
  const { env } = await startAgentServer({ a: [{ text: "A" }], b: [{ text: "B" }] });
  const program = `
import { openPawl, runAgent } from "pawl";
const first = await runAgent({ prompt: "a", key: "k" });
const same = await runAgent({ prompt: "a", key: "k" });
const other = await runAgent({ prompt: "b", key: "k" }).catch((error) => error.name + ": " + error.message);
const text = await runAgent("a").catch((error) => error.name);
const pawl = await openPawl();
const none = await pawl.startWorker({ concurrency: 0 }).catch((error) => error.name);
const worker = await pawl.startWorker();
await pawl.close();
await worker.done;
console.log(JSON.stringify({ first: first.result, isSame: same.id === first.id, other, text, none }));
`;
  const { stdout, stderr, exitCode } = await node(
    userProject({ "program.mjs": program }, env),
    "program.mjs",
  );
  expect({ stderr, exitCode }).toEqual({ stderr: "", exitCode: 0 });
  expect(JSON.parse(stdout)).toEqual({
    first: "A",
    isSame: true,
    other: expect.stringMatching(/^ConfigError: .*another task: nothing was run/),
    text: "ConfigError",
    none: "ConfigError",
  });
});
