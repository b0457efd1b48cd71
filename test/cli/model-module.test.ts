import { writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { startAgentServer } from "../helpers/agent-server.ts";
import { commandLine } from "../helpers/command-line.ts";

/** Answers from the messages alone: first a command, then what it printed. */
const own = `
import { call, say, scriptedModel, type Model } from "pawl";
const model: Model = scriptedModel(({ messages, model, parameters }) => {
  const last = messages.at(-1);
  return last?.role === "tool" ? say(model + " saw " + String(last.content).trim().split("\\n").at(-1)) : call("bash", { command: "echo seed " + parameters?.seed });
});
`;
const exports: Record<string, string> = {
  "a model": "export default model;",
  "a function": "export default () => model;",
  "an asynchronous function": "export default async () => model;",
};

function project(module: string, env: Record<string, string> = {}) {
  const files = {
    "model/own.ts": module,
    "pawl.config.json": '{ "modelModule": "./model/own.ts", "modelParameters": { "seed": 7 } }',
  };
  return commandLine({ files, env });
}

test.each(Object.keys(exports))(
  "%s of the module that the configuration names is asked, without a key, and --model says what is recorded",
  async (kind) => {
    const { pawl, json, folder } = project(own + exports[kind]);
    const run = await pawl(["run", "x", "--key", "k", "--model", "mine"]);
    expect(run).toMatchObject({ code: 0, stdout: "mine saw seed 7" });
    expect(run.stderr).toContain(`with mine of ${path.join(folder, "model", "own.ts")}`);
    expect(await json(["show", "k"])).toMatchObject([{ model: "mine", modelParameters: { seed: 7 } }]);
  },
);

test("a run whose worker died is resumed with the module; without it, it waits and says so", async () => {
  const { pawl, json, folder } = project(own + exports["a model"]);
  await pawl(["enqueue", "x", "--key", "k"]);
  await pawl(["worker", "--drain"], { env: { PAWL_FAILPOINT: "reply.committed" } });
  const configure = (config: object) =>
    writeFileSync(path.join(folder, "pawl.config.json"), JSON.stringify(config));
  configure({ model: "m", baseUrl: "http://127.0.0.1:9/v1" });
  await pawl(["worker", "--drain"]);
  const note = expect.stringContaining("set modelModule");
  expect(await json(["show", "k"])).toMatchObject([{ status: "waiting", waiting: { kind: "auth", note } }]);
  configure({ modelModule: "./model/own.ts" });
  await pawl(["resume", "k"]);
  expect((await pawl(["worker", "--drain"])).code).toBe(0);
  expect(await json(["show", "k"])).toMatchObject([{ status: "succeeded", result: "own saw seed 7" }]);
});

test("a run that began at a service stays there when a module is configured since", async () => {
  const server = await startAgentServer({
    x: [{ tool: "bash", input: { command: "true" } }, { text: "of the service" }],
  });
  const { pawl, json, folder } = commandLine({
    files: { "own.ts": own + exports["a model"] },
    env: server.env,
  });
  await pawl(["enqueue", "x", "--key", "k"]);
  await pawl(["worker", "--drain"], { env: { PAWL_FAILPOINT: "reply.committed" } });
  writeFileSync(path.join(folder, "pawl.config.json"), '{ "modelModule": "./own.ts" }');
  await pawl(["worker", "--drain"]);
  expect(await json(["show", "k"])).toMatchObject([{ result: "of the service", model: "test-model" }]);
});

test("what a model throws to be asked again about is asked again", async () => {
  const { pawl } = project(`
import { ModelError, say, scriptedModel } from "pawl";
export default scriptedModel((_, n) => n === 1 ? new ModelError("retry", "busy", { retryAfterMs: 5 }) : say("at last"));`);
  expect(await pawl(["run", "x"])).toMatchObject({ code: 0, stdout: "at last" });
});

test.each([
  ["export default 5;", "got 5"],
  ["export const model = { ask() {} };", "got an object"],
  ["export default () => ({});", "got a function that gives an object"],
  ['export default () => { throw new Error("no luck"); };', "its default export failed: no luck"],
])(
  "doctor and run say of a module with %s what was expected, and nothing is enqueued",
  async (module, problem) => {
    const { pawl, json } = project(module);
    for (const words of [["run", "x"], ["doctor"]]) {
      const { code, stdout, stderr } = await pawl(words);
      expect(code).toBe(words[0] === "run" ? 2 : 1);
      expect(stdout + stderr).toContain("model/own.ts: ");
      expect(stdout + stderr).toContain(problem);
    }
    expect(await json(["list"])).toEqual([]);
  },
);

test("doctor names the module and its window", async () => {
  const { pawl, folder } = project(own + exports["a function"]);
  const { stdout } = await pawl(["doctor"]);
  expect(stdout).toMatch(/^ok +model +own of .*own\.ts, window of 128000 tokens, 8000 of it for a reply/m);
  expect(stdout).toContain(folder);
});
