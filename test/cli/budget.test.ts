import { existsSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { dollars } from "../../src/limits/budget.ts";
import { startAgentServer } from "../helpers/agent-server.ts";
import { commandLine } from "../helpers/command-line.ts";
import { startMeteredServer } from "../helpers/metered-server.ts";

const look = { tool: "list_files", input: {} };
/** Prices so high that a request costs dollars. */
const prices = { "test-model": { input: 1000, output: 1000 } };

async function setUp(config: Record<string, unknown> = {}) {
  const server = await startAgentServer({ "look on": [look], once: [{ text: "done" }] });
  const settings = { prices, maxOutputTokens: 1000, ...config };
  const line = commandLine({ env: server.env, files: { "pawl.config.json": JSON.stringify(settings) } });
  const configure = (more: Record<string, unknown>) =>
    writeFileSync(path.join(line.folder, "pawl.config.json"), JSON.stringify({ ...settings, ...more }));
  const show = async (key: string) => (await line.json(["show", key]))[0] as Record<string, never>;
  return { ...line, server, configure, show };
}

test("what a run cost is told at its end, and by show, list and status; without a price it is null", async () => {
  const { pawl, json, configure, show } = await setUp();
  const { stderr, code } = await pawl(["run", "once", "--key", "priced"]);
  expect(code).toBe(0);
  const { usage } = await show("priced");
  const { promptTokens, completionTokens, costUsd } = usage as unknown as Record<string, number>;
  expect(costUsd).toBeCloseTo(((promptTokens ?? 0) + (completionTokens ?? 0)) / 1000, 9);
  expect(usage).toMatchObject({ pricedUsd: costUsd, unpricedRequests: 0 });
  const cost = dollars(Math.round((costUsd ?? 0) * 1_000_000));
  expect(stderr).toContain(`tokens · ${cost}`);
  expect((await pawl(["show", "priced"])).stdout).toContain(cost);
  expect((await pawl(["list"])).stdout).toContain(cost);
  configure({ prices: {} });
  expect((await pawl(["run", "once", "--key", "unpriced"])).code).toBe(0);
  expect((await show("unpriced")).usage).toMatchObject({ costUsd: null, pricedUsd: 0, unpricedRequests: 1 });
  const [status] = await json(["status"]);
  expect(status?.usage).toMatchObject({ costUsd: null, pricedUsd: costUsd, unpricedRequests: 1 });
  expect((await pawl(["status"])).stdout).toMatch(/cost +\$.* and 1 request of unknown price/);
});

test("a budget in dollars for a model of unknown price is refused in one line before anything is stored", async () => {
  const { pawl, folder, configure } = await setUp({ prices: {} });
  for (const words of [
    ["enqueue", "once", "--budget-usd", "1"],
    ["enqueue", "once", "--batch", "night", "--batch-budget-usd", "1"],
    ["enqueue", "once", "--model", "other", "--budget-usd", "1", "--dry-run"],
  ]) {
    const { stdout, stderr, code } = await pawl(words);
    expect({ stdout, code }).toEqual({ stdout: "", code: 2 });
    expect(stderr).toMatch(/^pawl: expected a model with a known price.*set prices in the configuration.*$/);
  }
  expect(existsSync(path.join(folder, ".pawl"))).toBe(false);
  configure({ prices: {}, dayBudgetUsd: 5 });
  expect((await pawl(["run", "once"])).stderr).toContain("expected a model with a known price, as there is");
  expect((await pawl(["enqueue", "once", "--budget-tokens", "100000"])).code).toBe(2);
  configure({ prices: {} });
  expect((await pawl(["enqueue", "once", "--budget-tokens", "100000"])).code).toBe(0);
});

test("a run at the end of its budget is budget_limit; a fork goes on from there, a retry begins with another", async () => {
  const { pawl, json, show, env } = await setUp();
  env.OPENAI_BASE_URL = (await startMeteredServer(() => 0.5)).url;
  const { stderr, code } = await pawl(["run", "look on", "--key", "k", "--budget-tokens", "60000"]);
  expect(code).toBe(1);
  expect(stderr).toContain("the budget of the task does not suffice");
  const ended = await show("k");
  const { id, steps, error } = ended as unknown as { id: string; steps: number; error: string };
  expect(ended).toMatchObject({ status: "failed", reason: "budget_limit", class: "limit" });
  expect(steps).toBeGreaterThan(0);
  expect(error).toContain(`pawl fork RUN --step ${steps}`);
  const [fork] = await json(["fork", id, "--step", String(steps)]);
  const [retried] = await json(["retry", id, "--budget-tokens", "1000"]);
  expect((await pawl(["worker", "--drain"])).code).toBe(0);
  const forked = (await show(String(fork?.id))) as unknown as { steps: number };
  expect(forked, "it has the budget of its task anew").toMatchObject({ reason: "budget_limit" });
  expect(forked.steps).toBeGreaterThan(0);
  expect(await show(String(retried?.retriedAs))).toMatchObject({
    reason: "budget_limit",
    steps: 0,
    attempt: 2,
  });
});

test("runs of a batch whose budget is used up wait or stay queued, and go on when it is raised", async () => {
  const { pawl, json, server } = await setUp();
  for (const key of ["a", "b", "c"]) {
    const words = ["enqueue", "look on", "--key", key, "--max-steps", "3", "--batch", "night"];
    const { stderr } = await pawl([...words, "--batch-budget-tokens", "100"]);
    expect(stderr).toContain("batch night may use 100 tokens");
    expect(stderr.includes("it was")).toBe(false);
  }
  expect((await pawl(["worker", "--drain", "--concurrency", "1"])).code).toBe(0);
  expect(server.requests).toEqual([]);
  const [status] = await json(["status", "--batch", "night"]);
  expect(status?.byStatus).toMatchObject({ failed: 0, succeeded: 0, waiting: 1, queued: 2 });
  expect(status?.budgets).toMatchObject([{ batch: "night", day: null, capTokens: 100, isUsedUp: true }]);
  const [waiting] = await json(["list", "--status", "waiting"]);
  expect(waiting?.waiting).toMatchObject({
    kind: "quota",
    wakeAt: null,
    note: expect.stringContaining("0 tokens of 100 tokens used"),
  });
  const raised = await pawl(["enqueue", "--batch", "night", "--batch-budget-tokens", "900000"]);
  expect(raised.stderr).toContain("batch night may use 900000 tokens (it was 100 tokens)");
  expect(raised.stderr).toContain("1 run that waited for it can go on");
  expect((await pawl(["worker", "--drain"])).code).toBe(0);
  expect((await json(["status", "--batch", "night"]))[0]?.byReason).toEqual({ step_limit: 3 });
  expect(server.requests).toHaveLength(9);
});

test("runs of a day whose budget is used up wait for midnight UTC, or for a worker with a higher one", async () => {
  const { pawl, json, configure } = await setUp({ dayBudgetUsd: 0.5 });
  await pawl(["enqueue", "once", "--key", "a"]);
  expect((await pawl(["worker", "--drain"])).code).toBe(0);
  const [waiting] = await json(["show", "a"]);
  const note = expect.stringContaining("the budget of the day does not suffice: $0.00 of $0.50 used");
  expect(waiting?.waiting).toEqual({
    kind: "quota",
    wakeAt: expect.stringMatching(/T00:00:00\.000Z$/),
    note,
  });
  expect((await pawl(["status"])).stdout).toMatch(/budget +day \d{4}-\d\d-\d\d \(UTC\): .*used up/);
  configure({ dayBudgetUsd: 50 });
  expect((await pawl(["worker", "--drain"])).code).toBe(0);
  expect(await json(["show", "a"])).toMatchObject([{ status: "succeeded" }]);
});
