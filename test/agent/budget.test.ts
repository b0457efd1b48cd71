import { describe, expect, it } from "vitest";
import { compact } from "../../src/agent/compact.ts";
import { type Agent, runAgent } from "../../src/agent/loop.ts";
import { requestModel } from "../../src/agent/request.ts";
import { ModelError } from "../../src/errors.ts";
import { dollars, noCaps } from "../../src/limits/budget.ts";
import type { ModelRequest } from "../../src/model/model.ts";
import { call, type Script, say, scriptedModel } from "../../src/model/scripted.ts";
import { toolContext } from "../helpers/tool-context.ts";
import { waitUntil } from "../helpers/wait-until.ts";
import { turnOf } from "./fixture.ts";
import { agentOf, firstOwner, nextOwner, type Owner, openTestStore, take } from "./owner.ts";

/** A micro-dollar a token of the prompt, two a token of the reply. */
const price = { input: 1_000_000, cachedInput: 1_000_000, output: 2_000_000 };
const priceOf = () => price;
const request: ModelRequest = {
  ...{ model: "m", maxOutputTokens: 100 },
  messages: [{ role: "user" as const, content: "hello" }],
};
const usage = { promptTokens: 50, completionTokens: 10, cachedTokens: 0, reasoningTokens: 0 };
/** Of the request above: bytes, what a provider may add, and the reply. */
const worstMicro = 1000 + 16 + Buffer.byteLength(JSON.stringify(request.messages[0])) + 200;

async function setUp(script: Script, options: Partial<Agent> & { batch?: string; micro?: number } = {}) {
  const { batch, micro, ...rest } = options;
  const store = await openTestStore();
  if (batch) await store.setBatchBudget(batch, { micro: micro ?? null });
  const owner = await firstOwner(store, { priceOf, ...(batch && { batch }) });
  const model = scriptedModel(script);
  const told: object[] = [];
  const logger = { info: (event: string, facts?: object) => told.push({ event, ...facts }), debug: () => {} };
  const context = toolContext();
  const agent = agentOf(owner, model, { priceOf, logger, contextOf: () => context, ...rest });
  return { store, owner, model, agent, told };
}

const task = (micro: number) => ({ task: { micro, tokens: null }, day: noCaps });

async function calls({ claim, log }: Owner, store: Awaited<ReturnType<typeof openTestStore>>) {
  await log.committed();
  return store.loadModelCalls(claim.runId);
}

describe("the budget of a task", () => {
  it("lets a run go on to the last request that surely fits, and ends it with its work kept", async () => {
    const { store, owner, agent } = await setUp(() => call("nope", {}), {
      budgets: task(8000),
      maxOutputTokens: 1000,
    });
    const ended = await runAgent(agent);
    const { steps } = owner.log.state;
    expect(steps).toBeGreaterThan(3);
    expect(ended).toMatchObject({ outcome: { status: "failed", reason: "budget_limit" } });
    const run = await store.getRun(owner.claim.runId);
    const spent = run?.costMicro ?? 0;
    const error = "outcome" in ended ? ended.outcome.error : "";
    expect(error).toContain(
      `the budget of the task does not suffice: ${dollars(spent)} of $0.0080 used, and the next`,
    );
    expect(error).toContain("--budget-usd");
    expect(error).toContain(`pawl fork RUN --step ${steps}`);
    const rows = await calls(owner, store);
    expect(rows.reduce((sum, row) => sum + (row.costMicro ?? 0), 0)).toBe(spent);
    expect(8000 - spent, "one more might have been too much").toBeLessThan(2000 + 1500);
  });

  it("counts failed requests and those of earlier owners", async () => {
    const failing = [
      new ModelError("retry", "cut", { mayBeBilled: true }),
      new ModelError("invalid", "refused"),
    ];
    const { store, owner, agent } = await setUp((_, number) => failing[number - 1] ?? say("no"), {
      budgets: task(worstMicro * 2),
    });
    await expect(requestModel(agent, "step", request)).rejects.toThrow("refused");
    expect(await calls(owner, store)).toMatchObject([
      { state: "failed", reservedMicro: worstMicro, costMicro: worstMicro },
      { state: "failed", reservedMicro: worstMicro, costMicro: 0 },
    ]);
    owner.log.plan("step", "m", { ...task(1e9), isPriced: true, worst: () => ({ micro: 7, tokens: 7 }) });
    await owner.log.committed();
    const next = await nextOwner(store, owner, { priceOf });
    const model = scriptedModel(() => say("never"));
    const answered = await requestModel(
      agentOf(next, model, { priceOf, budgets: task(worstMicro * 2) }),
      "step",
      request,
    );
    expect(answered).toMatchObject({ refusal: { scope: "task", used: worstMicro + 7, needed: worstMicro } });
    expect(model.callCount()).toBe(0);
  });

  it("in dollars and without a known price lets the run wait, and says what to set", async () => {
    const { agent, model } = await setUp(() => say("never"), { priceOf: () => null, budgets: task(1000) });
    const ended = await runAgent(agent);
    expect(ended).toMatchObject({
      wait: { kind: "auth", note: expect.stringContaining('{"prices": {"m":') },
    });
    expect(model.callCount()).toBe(0);
  });

  it("that does not suffice for a summary leaves the window to a digest, which costs nothing", async () => {
    const { owner, agent, model } = await setUp(() => say("never"), { budgets: task(1) });
    for (let step = 0; step < 8; step += 1) take(owner, turnOf({ content: "x".repeat(900) }, "length", []));
    expect(await compact(agent)).toBe(true);
    expect(model.callCount()).toBe(0);
    expect(owner.log.state.compaction?.body).toContain("- step 1:");
  });
});

describe("the budget of a batch", () => {
  it("that is used up lets its runs wait for people, who are told how to raise it", async () => {
    const { agent } = await setUp(() => say("never"), { batch: "night", micro: 10 });
    const ended = await runAgent(agent);
    expect(ended).toMatchObject({ wait: { kind: "quota", wakeAt: null } });
    const note = "wait" in ended ? ended.wait.note : "";
    expect(note).toContain("the budget of batch night does not suffice: $0.00 of $0.000010 used");
    expect(note).toContain("pawl enqueue --batch night --batch-budget-usd N");
  });

  it("is waited for while the requests of others may give some of it back", async () => {
    const micro = worstMicro + 100;
    const { store, owner, agent, told } = await setUp(() => ({ ...say("hi"), usage }), {
      batch: "night",
      micro,
    });
    const other = await firstOwner(store, { batch: "night", priceOf });
    const worst = () => ({ micro: 900, tokens: 1 });
    const n = other.log.plan("step", "m", { ...task(1e9), isPriced: true, worst });
    await other.log.committed();
    const asked = requestModel(agent, "step", request);
    await waitUntil(() => told.length > 0, { timeoutMs: 10_000, what: "it is said that the request waits" });
    expect(told).toEqual([{ event: "budget.waiting", scope: "batch", batch: "night" }]);
    expect(await calls(owner, store)).toEqual([]);
    other.log.failModelCall(n, "refused", {
      usage: { ...usage, promptTokens: 0, completionTokens: 0 },
      responseId: null,
    });
    expect(await asked).toMatchObject({ n: 1, reply: { message: { content: "hi" } } });
  });

  it("is waited for until the run is paused", async () => {
    const { store, owner, agent, told } = await setUp(() => say("hi"), { batch: "night", micro: worstMicro });
    const other = await firstOwner(store, { batch: "night", priceOf });
    other.log.plan("step", "m", { ...task(1e9), isPriced: true, worst: () => ({ micro: 1, tokens: 1 }) });
    await other.log.committed();
    const asked = requestModel(agent, "step", request);
    await waitUntil(() => told.length > 0, { timeoutMs: 10_000, what: "it is said that the request waits" });
    await store.pause(owner.claim.runId);
    expect(await asked).toBeNull();
    expect(owner.log.asked().pauseAt).not.toBeNull();
  });
});

describe("what is set aside for a request", () => {
  const reservedFor = async (messages: ModelRequest["messages"]) => {
    const { store, owner, agent } = await setUp(() => say("ok"));
    await requestModel(agent, "step", { ...request, messages });
    return (await calls(owner, store))[0]?.reservedTokens ?? 0;
  };

  it("is at least a token a byte of every language, and a fixed sum an image, however it is sent", async () => {
    for (const text of ["x".repeat(5000), "汉字".repeat(500), "👩‍👩‍👧".repeat(100)]) {
      const tokens = await reservedFor([{ role: "user", content: text }]);
      expect(tokens).toBeGreaterThan(Buffer.byteLength(text) + 100);
    }
    const url = `data:image/png;base64,${"A".repeat(1_000_000)}`;
    const image = { type: "image_url" as const, image_url: { url } };
    const tokens = await reservedFor([{ role: "user", content: [{ type: "text", text: "see" }, image] }]);
    expect(tokens).toBeGreaterThan(50_000);
    expect(tokens).toBeLessThan(53_000);
  });

  it("follows the provider's own count of what the request extends", async () => {
    const script: Script = (_, number) =>
      number === 1
        ? { ...call("nope", { text: "y".repeat(4000) }), usage: { ...usage, promptTokens: 1500 } }
        : say("ok");
    const { store, owner, agent } = await setUp(script, { budgetTokens: 100_000 });
    await runAgent(agent);
    const second = (await calls(owner, store))[1];
    expect(second?.reservedTokens).toBeGreaterThan(1500 + 4000 + 500);
    expect(second?.reservedTokens).toBeLessThan(1500 + 4000 + 500 + 1500);
  });

  it("is nothing where no price is known and nothing bounds the run", async () => {
    const { store, owner, agent } = await setUp(() => say("ok"), { priceOf: () => null });
    await requestModel(agent, "step", request);
    expect(await calls(owner, store)).toMatchObject([{ reservedMicro: null, reservedTokens: null }]);
  });
});
