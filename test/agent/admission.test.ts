import { describe, expect, it } from "vitest";
import { type RunGate, waitBefore } from "../../src/agent/admission.ts";
import type { Agent } from "../../src/agent/loop.ts";
import { runAgent } from "../../src/agent/loop.ts";
import { requestModel } from "../../src/agent/request.ts";
import type { Store } from "../../src/db/store.ts";
import { ModelError, ModelWait } from "../../src/errors.ts";
import { openGate } from "../../src/limits/gate.ts";
import type { ModelReply, ModelRequest } from "../../src/model/model.ts";
import { waitUntil } from "../helpers/wait-until.ts";
import { turnOf } from "./fixture.ts";
import { agentOf, firstOwner, openTestStore } from "./owner.ts";

const request = { model: "m", messages: [{ role: "user" as const, content: "hello" }] };
const busy = (retryAfterMs?: number) => new ModelError("retry", "slow down", { retryAfterMs, isLimit: true });
const hour = 3_600_000;
const done = turnOf({ content: "done" }, "stop", []).reply;

type Answer = (request: ModelRequest, number: number) => ModelReply | Error;

/** A run behind a gate. `answer` decides by the model that is asked. */
async function setUp(answer: Answer, options: Partial<RunGate> & { retry?: Agent["retry"] } = {}) {
  const store = await openTestStore();
  const owner = await firstOwner(store);
  const limits = { requestsPerMinute: null, tokensPerMinute: null };
  const gate = openGate({ store, account: "http://here", limits, random: () => 0 });
  const asked: string[] = [];
  const told: { event: string }[] = [];
  const runGate: RunGate = {
    gate,
    workerId: owner.claim.workerId,
    fallbackModels: [],
    refusedBy: new Set<string>(),
    askedModel: "m",
    opensAt: store.now,
    now: store.now,
    ...options,
  };
  const model = {
    async ask(request: ModelRequest) {
      asked.push(request.model);
      const reply = answer(request, asked.length);
      if (reply instanceof Error) throw reply;
      return reply;
    },
  };
  const agent = agentOf(owner, model, {
    gate: runGate,
    retry: { baseDelayMs: 1, attempts: 2, ...options.retry },
    logger: { info: (event, facts) => told.push({ event, ...facts }), debug: () => {} },
  });
  return { store, owner, agent, asked, told, gate: runGate };
}

async function modelsOf(store: Store, runId: string) {
  return (await store.loadModelCalls(runId)).map(({ model, state }) => `${model} ${state}`);
}

describe("a request that a provider's limits refuse", () => {
  it("is made again when the gate opens, and costs no attempt however often", async () => {
    const { agent, asked, told } = await setUp((_, number) => (number <= 6 ? busy(1) : done), {
      retry: { attempts: 1 },
    });
    const answered = await requestModel(agent, "step", request);
    expect(answered).toMatchObject({ n: 7, reply: { message: { content: "done" } } });
    expect(asked).toHaveLength(7);
    expect(told.filter(({ event }) => event === "model.retried")).toEqual([]);
  }, 60_000);

  it("makes the run give its place away where the wait is long, with the time it wakes", async () => {
    const { agent, owner, store } = await setUp(
      () => new ModelError("quota", "no credit", { retryAfterMs: hour }),
    );
    const before = Date.now();
    const ended = await runAgent(agent);
    expect(ended).toEqual({ wait: { kind: "quota", note: "no credit", wakeAt: expect.any(Number) } });
    const wakeAt = "wait" in ended ? (ended.wait.wakeAt ?? 0) : 0;
    expect(wakeAt).toBeGreaterThanOrEqual(before + hour);
    expect(wakeAt).toBeLessThanOrEqual(Date.now() + hour);
    expect(await modelsOf(store, owner.claim.runId)).toEqual(["m failed"]);
  });

  it("makes the run wait where the provider only ever refuses", async () => {
    const { agent } = await setUp(() => busy(5), { retry: { maxRetryMs: 20 } });
    await expect(requestModel(agent, "step", request)).rejects.toMatchObject({
      name: "ModelWait",
      kind: "quota",
    });
  });

  it("lets the run wait for people where the key is refused, and the next one without a request", async () => {
    const { agent, asked, gate } = await setUp(() => new ModelError("auth", "no such key"));
    const wait = { kind: "auth", note: "no such key", wakeAt: null };
    expect(await runAgent(agent)).toEqual({ wait });
    expect(await runAgent(agent)).toEqual({ wait });
    expect(asked).toHaveLength(1);
    expect(await waitBefore(gate, "m")).toBeInstanceOf(ModelWait);
    expect(await waitBefore(gate, "other")).toBeUndefined();
  });

  it("is given up within a moment by a pause, a cancel, a stop and an abort while it waits", async () => {
    const ends: ((setup: Awaited<ReturnType<typeof setUp>>, end: AbortController) => unknown)[] = [
      ({ store, owner }) => store.pause(owner.claim.runId),
      ({ store, owner }) => store.cancel(owner.claim.runId),
      ({ agent }) => {
        agent.isStopping = () => true;
      },
      (_, end) => end.abort(new Error("stop")),
    ];
    for (const end of ends) {
      const setup = await setUp(() => busy(30_000));
      const controller = new AbortController();
      setup.agent.signal = controller.signal;
      const asking = requestModel(setup.agent, "step", request);
      await waitUntil(() => setup.told.some(({ event }) => event === "model.waiting"), {
        timeoutMs: 20_000,
        what: "the run says that it waits",
      });
      await end(setup, controller);
      expect(await asking).toBeNull();
      expect(setup.asked).toHaveLength(1);
    }
  }, 60_000);

  it("goes on as soon as people open the gate", async () => {
    const { agent, store, told } = await setUp((_, number) => (number === 1 ? busy(50_000) : done));
    const asking = requestModel(agent, "step", request);
    await waitUntil(() => told.some(({ event }) => event === "model.waiting"), {
      timeoutMs: 20_000,
      what: "the run says that it waits",
    });
    await store.openGates();
    expect(await asking).toMatchObject({ reply: { message: { content: "done" } } });
  }, 40_000);
});

describe("a model in the place of the run's own", () => {
  it("is asked while the run's own may not be asked for long, and said once", async () => {
    const quota = new ModelError("quota", "no credit", { retryAfterMs: hour });
    const { agent, asked, told, store, owner } = await setUp(({ model }) => (model === "m" ? quota : done), {
      fallbackModels: ["second"],
    });
    expect(await requestModel(agent, "step", request)).toMatchObject({ n: 2 });
    expect(await requestModel(agent, "step", request)).toMatchObject({ n: 3 });
    expect(asked).toEqual(["m", "second", "second"]);
    expect(told.filter(({ event }) => event === "model.changed")).toEqual([
      { event: "model.changed", model: "second", before: "m" },
    ]);
    await owner.log.committed();
    expect(await modelsOf(store, owner.claim.runId)).toEqual(["m failed", "second sent", "second sent"]);
  });

  it("is not asked for a wait of less than a minute", async () => {
    const { agent, asked } = await setUp((_, number) => (number === 1 ? busy(100) : done), {
      fallbackModels: ["second"],
    });
    await requestModel(agent, "step", request);
    expect(asked).toEqual(["m", "m"]);
  });

  it("is asked where all retries failed, and the next request goes to it at once", async () => {
    const { agent, asked } = await setUp(
      ({ model }) => (model === "second" ? done : new ModelError("retry", "down")),
      { fallbackModels: ["second"] },
    );
    await requestModel(agent, "step", request);
    await requestModel(agent, "step", request);
    expect(asked).toEqual(["m", "m", "second", "second"]);
  });

  it("is no help where it fails too: then the run ends by its error", async () => {
    const down = new ModelError("invalid", "no such model");
    const { agent, asked } = await setUp(() => down, { fallbackModels: ["second", "third"] });
    await expect(requestModel(agent, "step", request)).rejects.toBe(down);
    expect(asked).toEqual(["m", "second", "third"]);
  });

  it("is not asked with a key that was refused", async () => {
    const { agent, asked } = await setUp(() => new ModelError("auth", "no such key"), {
      fallbackModels: ["second"],
    });
    await expect(requestModel(agent, "step", request)).rejects.toMatchObject({ kind: "auth" });
    expect(asked).toEqual(["m"]);
  });

  it("that is closed to the key parks no run whose own model opens again", async () => {
    const { agent, asked } = await setUp(
      ({ model }) =>
        model === "m"
          ? new ModelError("quota", "no credit", { retryAfterMs: hour })
          : new ModelError("auth", "not for this key"),
      { fallbackModels: ["second"] },
    );
    await expect(requestModel(agent, "step", request)).rejects.toMatchObject({
      kind: "quota",
      wakeAt: expect.any(Number),
    });
    expect(asked).toEqual(["m", "second"]);
  });

  it("takes over for the run alone whose request was refused", async () => {
    const { agent, asked } = await setUp(
      ({ model }) => (model === "m" ? new ModelError("invalid", "no such member") : done),
      { fallbackModels: ["second"] },
    );
    await requestModel(agent, "step", request);
    const gate = agent.gate?.gate;
    expect(await gate?.look({ model: "m", isLast: false })).toBeNull();
    await requestModel(agent, "step", request);
    expect(asked).toEqual(["m", "second", "second"]);
  });

  it("that has no known price, or is too dear, is passed over: the run waits for its own", async () => {
    for (const price of [null, { input: 1e12, cachedInput: 1e12, output: 1e12 }]) {
      const { agent, asked } = await setUp(
        () => new ModelError("quota", "no credit", { retryAfterMs: hour }),
        { fallbackModels: ["second"] },
      );
      const free = { input: 0, cachedInput: 0, output: 0 };
      agent.priceOf = (model) => (model === "m" ? free : price);
      agent.budgets = { task: { micro: 1000, tokens: null }, day: { micro: null, tokens: null } };
      await expect(requestModel(agent, "step", request)).rejects.toMatchObject({ kind: "quota" });
      expect(asked).toEqual(["m"]);
    }
  });

  it("is no help against a model that takes no tools: the protocol is", async () => {
    const refused = new ModelError("invalid", "no tools", { unsupported: "tools" });
    const { agent, asked } = await setUp(() => refused, { fallbackModels: ["second"] });
    await expect(requestModel(agent, "step", request)).rejects.toBe(refused);
    expect(asked).toEqual(["m"]);
  });

  it("leaves the soonest of their times as the time to wake where none may be asked", async () => {
    const { agent } = await setUp(
      ({ model }) =>
        new ModelError("quota", `no credit for ${model}`, { retryAfterMs: model === "m" ? 3 * hour : hour }),
      { fallbackModels: ["second"] },
    );
    await expect(requestModel(agent, "step", request)).rejects.toMatchObject({
      message: "no credit for second",
    });
  });
});

describe("allowed hours", () => {
  it("hold requests back: the run waits until they begin", async () => {
    const opensAt = Date.now() + hour;
    const { agent, asked } = await setUp(() => done, { opensAt: () => opensAt });
    const wait = { kind: "timer", note: "outside of the allowed hours", wakeAt: opensAt };
    expect(await runAgent(agent)).toEqual({ wait });
    expect(asked).toEqual([]);
  });
});
