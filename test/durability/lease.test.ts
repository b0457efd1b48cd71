import { rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { expectSoundLogs } from "../helpers/invariants.ts";
import { createScenario, markOf, type Scenario, type Story } from "../helpers/scenario.ts";
import { waitUntil } from "../helpers/wait-until.ts";

/** Long enough that a slow machine does not lose it by itself. */
const leaseMs = 3000;
const config = { tools: ["./block.mjs"] };

/** A tool of a user's that keeps the main thread: for a time, or until a file is gone. */
const blockTool = (folder: string, kind: string) => `
import { appendFileSync, existsSync } from "node:fs";
import { defineTool } from "pawl";
const wait = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
export const block = defineTool({
  name: "block", description: "Blocks.", class: "${kind}",
  parameters: { type: "object", properties: { ms: { type: "number" }, mark: { type: "string" } }, required: ["ms"] },
  run: async ({ ms }) => {
    appendFileSync("${folder}/effects.log", "blocked\\n");
    const until = Date.now() + ms;
    while (Date.now() < until && existsSync("${folder}/hold")) wait();
    return "free again";
  },
});`;

async function blockScenario(
  ms: number,
  kind: "unsafe" | "pure",
  env = { PAWL_LEASE_MS: String(leaseMs) },
): Promise<Scenario> {
  const story: Story = (_key, done, run) => {
    if (done === 0) return { toolCalls: [{ name: "block", arguments: { ms, mark: markOf("k", 1) } }] };
    return done === 1 ? { toolCalls: [run(2)] } : { content: "all done" };
  };
  const scenario = await createScenario(story, { config, env });
  writeFileSync(path.join(scenario.folder, "block.mjs"), blockTool(scenario.folder, kind));
  writeFileSync(path.join(scenario.folder, "hold"), "");
  await scenario.enqueue(["k"]);
  return scenario;
}

const isBlocked = (scenario: Scenario) =>
  waitUntil(() => scenario.effects().length > 0, { timeoutMs: 20_000, what: "the tool blocks" });

test("a worker whose main thread is busy for longer than its lease keeps its runs", async () => {
  const scenario = await blockScenario(2.2 * leaseMs, "unsafe");
  const busy = scenario.worker();
  await isBlocked(scenario);
  const other = scenario.worker();
  expect((await busy.ended()).code).toBe(0);
  expect((await other.ended()).code).toBe(0);
  expect((await scenario.json("show", "k"))[0]).toMatchObject({ status: "succeeded", epoch: 1 });
  expect(scenario.effects()).toEqual(["blocked", markOf("k", 2)]);
});

test("a worker whose main thread is stuck loses its runs to another, and writes nothing when it comes to itself", async () => {
  const scenario = await blockScenario(60_000, "unsafe");
  const stuck = scenario.worker({ args: [] });
  await isBlocked(scenario);
  const database = scenario.database();
  expect((await scenario.worker().ended()).code).toBe(0);
  expect((await scenario.json("show", "k"))[0]).toMatchObject({ status: "succeeded", epoch: 2 });
  const rows = () => ["messages", "calls", "model_calls", "events"].map((table) => rowsOf(table));
  const rowsOf = (table: string) => database.prepare(`SELECT * FROM ${table} WHERE run_id IS NOT NULL`).all();
  const before = rows();
  rmSync(path.join(scenario.folder, "hold"));
  await stuck.says("lease has run out");
  stuck.child.kill("SIGTERM");
  expect((await stuck.ended()).code).toBe(0);
  expect(rows()).toEqual(before);
  expectSoundLogs(database);
});

test("a run that makes every worker stuck ends as crash_loop", { timeout: 120_000 }, async () => {
  const scenario = await blockScenario(4000, "pure", { PAWL_LEASE_MS: "500" });
  expect((await scenario.worker().ended(90_000)).code).toBe(0);
  expect((await scenario.json("show", "k"))[0]).toMatchObject({ status: "failed", reason: "crash_loop" });
  // A tool that only reads runs while its reply is being committed: one that blocks takes that along, so no try made a step.
  expect(scenario.effects().length, "three tries").toBeGreaterThanOrEqual(3);
  expectSoundLogs(scenario.database());
});
