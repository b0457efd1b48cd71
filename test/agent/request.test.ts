import { describe, expect, it } from "vitest";
import type { Agent } from "../../src/agent/loop.ts";
import { requestModel } from "../../src/agent/request.ts";
import { ModelError } from "../../src/errors.ts";
import { openaiModel } from "../../src/model/openai.ts";
import { type Script, say, scriptedModel } from "../../src/model/scripted.ts";
import { startModelServer } from "../helpers/model-server.ts";
import { agentOf, firstOwner, openTestStore } from "./owner.ts";

const request = { model: "m", messages: [{ role: "user" as const, content: "hello" }] };
const busy = (retryAfterMs?: number) => new ModelError("retry", "busy", { retryAfterMs });

/** A run whose model follows the script, with waits too short to notice. */
async function setUp(script: Script, options: Partial<Agent> = {}) {
  const store = await openTestStore();
  const owner = await firstOwner(store);
  const model = scriptedModel(script);
  const told: object[] = [];
  const agent = agentOf(owner, model, {
    retry: { baseDelayMs: 2 },
    logger: { info: (event, facts) => told.push({ event, ...facts }), debug: () => {} },
    ...options,
  });
  const rows = async () => {
    await owner.log.committed();
    return (await store.loadModelCalls(owner.claim.runId)).map(({ n, state, error }) => ({
      n,
      state,
      error,
    }));
  };
  return { store, owner, model, agent, told, rows };
}

describe("a request to the model", () => {
  it("is made again until there is an answer, each time in a row of its own", async () => {
    const { agent, rows, told } = await setUp((_, callNumber) => (callNumber < 3 ? busy() : say("done")));
    const answered = await requestModel(agent, "step", request);
    expect(answered).toMatchObject({ n: 3, reply: { message: { content: "done" } } });
    const failed = { state: "failed", error: "busy" };
    expect(await rows()).toEqual([
      { n: 1, ...failed },
      { n: 2, ...failed },
      { n: 3, state: "sent", error: null },
    ]);
    const retried = { event: "model.retried", attempts: 8, delayMs: expect.any(Number), error: "busy" };
    expect(told).toEqual([
      { ...retried, attempt: 1 },
      { ...retried, attempt: 2 },
    ]);
  });

  it("is not made again where that is of no use, nor after a fault of the program", async () => {
    for (const error of [new ModelError("invalid", "no such model"), new TypeError("bug")]) {
      const { agent, model } = await setUp(() => error);
      await expect(requestModel(agent, "step", request)).rejects.toBe(error);
      expect(model.callCount()).toBe(1);
    }
  });

  it("costs a bounded time", async () => {
    const errors = [busy(1), busy(60_000)];
    const { agent, model } = await setUp((_, callNumber) => errors[callNumber - 1] ?? say("late"), {
      retry: { maxRetryMs: 30_000 },
    });
    await expect(requestModel(agent, "step", request)).rejects.toBe(errors[1]);
    expect(model.callCount()).toBe(2);
  });

  it("is broken off in its wait by an abort and by a worker that stops", async () => {
    const controller = new AbortController();
    const aborted = await setUp(
      () => {
        setImmediate(() => controller.abort(new Error("stop")));
        return busy(60_000);
      },
      { signal: controller.signal },
    );
    expect(await requestModel(aborted.agent, "step", request)).toBeNull();
    let isStopping = false;
    const stopped = await setUp(
      () => {
        isStopping = true;
        return busy(60_000);
      },
      { isStopping: () => isStopping },
    );
    expect(await requestModel(stopped.agent, "step", request)).toBeNull();
    expect([aborted.model.callCount(), stopped.model.callCount()]).toEqual([1, 1]);
  });

  it("is not made for a run that was paused or cancelled meanwhile", async () => {
    const { agent, model, owner, store, rows } = await setUp(() => busy(1));
    await store.pause(owner.claim.runId);
    expect(await requestModel(agent, "summary", request)).toBeNull();
    expect(model.callCount()).toBe(0);
    expect(await rows()).toEqual([{ n: 1, state: "failed", error: "not sent: the run was paused" }]);
  });

  it("waits as long as a server asks for", async () => {
    const server = await startModelServer((_, requestNumber) =>
      requestNumber === 1
        ? { error: { status: 429, message: "slow down", retryAfter: 1 } }
        : { content: "hi" },
    );
    const { agent, told } = await setUp(() => say("unused"));
    agent.model = openaiModel({ baseUrl: server.url, apiKey: "k" });
    const startedAt = performance.now();
    const answered = await requestModel(agent, "step", request);
    expect(answered).toMatchObject({ reply: { message: { content: "hi" } } });
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(1000);
    expect(told).toMatchObject([{ event: "model.retried", attempt: 1 }]);
    expect(server.requests).toHaveLength(2);
    await server.close();
  });
});
