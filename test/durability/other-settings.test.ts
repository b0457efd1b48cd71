import { writeFileSync } from "node:fs";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { expectSoundLogs } from "../helpers/invariants.ts";
import { type ModelServer, startModelServer } from "../helpers/model-server.ts";
import { createScenario, markOf, type Scenario, type Story } from "../helpers/scenario.ts";

const story: Story = (_key, done, run) =>
  done < 8 ? { toolCalls: [run(done + 1, "seq 1 400")] } : { content: "all done" };

/** A run whose worker died after its sixth reply. */
async function interrupted(): Promise<Scenario> {
  const scenario = await createScenario(story);
  await scenario.enqueue(["k"]);
  const doomed = scenario.worker({ env: { PAWL_FAILPOINT: "reply.committed:6" } });
  expect((await doomed.ended()).signal).toBe("SIGKILL");
  return scenario;
}

async function otherServer(): Promise<ModelServer> {
  const server = await startModelServer(() => ({ content: "the wrong one was asked" }));
  onTestFinished(() => server.close());
  return server;
}

function configure(scenario: Scenario, config: Record<string, unknown>): void {
  writeFileSync(path.join(scenario.folder, "pawl.config.json"), JSON.stringify(config));
}

async function resume(scenario: Scenario, env: Record<string, string> = {}) {
  expect((await scenario.worker({ env }).ended()).code).toBe(0);
  expectSoundLogs(scenario.database());
  const [run = {}] = await scenario.json("show", "k");
  return run;
}

test("a run that has begun stays with its model and server, whatever is configured when it resumes", async () => {
  const scenario = await interrupted();
  const other = await otherServer();
  const run = await resume(scenario, { OPENAI_BASE_URL: other.url, OPENAI_MODEL: "other" });
  expect(run).toMatchObject({ status: "succeeded", result: "all done", model: "m" });
  expect(other.requests).toEqual([]);
  expect(new Set(scenario.server.requests.map(({ model }) => model))).toEqual(new Set(["m"]));
});

test("a window that is smaller when the run resumes is made up for by a summary, before the model goes on", async () => {
  const scenario = await interrupted();
  const before = scenario.server.requests.length;
  configure(scenario, { contextTokens: 3600, maxOutputTokens: 500 });
  const run = await resume(scenario);
  expect(run).toMatchObject({ status: "succeeded", result: "all done" });
  const asked = scenario.server.requests.slice(before);
  expect(
    asked.findIndex(({ tools }) => !tools),
    "a summary is asked for",
  ).toBeGreaterThan(-1);
  expect(scenario.effects()).toEqual([1, 2, 3, 4, 5, 6, 7, 8].map((n) => markOf("k", n)));
});

test("calls of a tool that is gone when the run resumes stay in its history, and new ones are answered with an error", async () => {
  const module = `export const echo = { name: "echo", description: "Says it again.", class: "pure",
    parameters: { type: "object", properties: {} }, parse: (value) => value, run: async () => "said again" };\n`;
  const script: Story = (_key, done, run) => {
    const echo = { name: "echo", arguments: {} };
    if (done === 0) return { toolCalls: [run(1), echo] };
    if (done === 1) return { toolCalls: [run(2)] };
    return done === 2 ? { toolCalls: [run(3), echo] } : { content: "all done" };
  };
  const scenario = await createScenario(script, { config: { tools: ["./echo.mjs"] } });
  writeFileSync(path.join(scenario.folder, "echo.mjs"), module);
  await scenario.enqueue(["k"]);
  const doomed = scenario.worker({ env: { PAWL_FAILPOINT: "reply.committed:2" } });
  expect((await doomed.ended()).signal).toBe("SIGKILL");
  configure(scenario, {});
  expect(await resume(scenario)).toMatchObject({ status: "succeeded" });
  const answers = scenario.server.requests
    .at(-1)
    ?.messages.filter(({ role }) => role === "tool")
    .map(({ content }) => String(content));
  expect(answers).toHaveLength(5);
  expect(answers?.[1]).toContain("said again");
  expect(answers?.[4]).toContain("there is no tool");
});
