import { describe, expect, it } from "vitest";
import { ModelError, type ModelErrorKind } from "../../src/errors.ts";
import { openaiModel } from "../../src/model/openai.ts";
import { type RetryOptions, retrying } from "../../src/model/retry.ts";
import { say, scriptedModel } from "../../src/model/scripted.ts";
import { startModelServer } from "../helpers/model-server.ts";

const request = { model: "m", messages: [{ role: "user" as const, content: "hello" }] };
const never = new AbortController().signal;

/** A model that throws these errors in turn and then answers, asked through `retrying` with a clock that only notes. */
function failing(errors: Error[], options: RetryOptions = {}) {
  const waits: number[] = [];
  const model = scriptedModel((_, callNumber) => errors[callNumber - 1] ?? say("done"));
  const sleep = async (delayMs: number) => {
    waits.push(delayMs);
  };
  return { waits, model, asking: retrying(model, { sleep, random: () => 0, ...options }) };
}

const fault = (kind: ModelErrorKind, retryAfterMs?: number) => new ModelError(kind, kind, { retryAfterMs });
const faults = (count: number) => Array.from({ length: count }, () => fault("retry"));

describe("retrying", () => {
  it("asks again until there is an answer, waiting twice as long each time", async () => {
    const { waits, asking } = failing(faults(4), { baseDelayMs: 100 });
    expect((await asking.ask(request, never)).message.content).toBe("done");
    expect(waits).toEqual([50, 100, 200, 400]);
  });

  it("gives up after its attempts with the last error", async () => {
    const errors = faults(3);
    const { model, asking } = failing(errors, { attempts: 3 });
    await expect(asking.ask(request, never)).rejects.toBe(errors[2]);
    expect(model.callCount()).toBe(3);
  });

  it("spreads its waits between half of the back-off and the whole", async () => {
    const { waits, asking } = failing(faults(1), { baseDelayMs: 100, random: () => 0.999 });
    await asking.ask(request, never);
    expect(waits).toEqual([100]);
  });

  it("waits as long as asked and a little more, but never beyond the bound", async () => {
    const errors = [fault("retry", 3_000), fault("retry", 3_600_000)];
    const { waits, asking } = failing(errors, { maxDelayMs: 20_000, random: () => 0.5 });
    await asking.ask(request, never);
    expect(waits).toEqual([3_150, 20_000]);
  });

  it("bounds the back-off", async () => {
    const { waits, asking } = failing(faults(6), { baseDelayMs: 1_000, maxDelayMs: 4_000 });
    await asking.ask(request, never);
    expect(waits).toEqual([500, 1_000, 2_000, 2_000, 2_000, 2_000]);
  });

  it.each(["overflow", "refused", "invalid", "auth", "quota"] as const)(
    "does not ask again after a failure of kind %s",
    async (kind) => {
      const { model, asking } = failing([fault(kind)]);
      await expect(asking.ask(request, never)).rejects.toMatchObject({ kind });
      expect(model.callCount()).toBe(1);
    },
  );

  it("waits for a quota that comes back soon and not for one that does not", async () => {
    const soon = failing([fault("quota", 5_000)]);
    await soon.asking.ask(request, never);
    expect(soon.waits).toEqual([5_000]);
    const late = failing([fault("quota", 3_600_000)]);
    await expect(late.asking.ask(request, never)).rejects.toMatchObject({ retryAfterMs: 3_600_000 });
    expect(late.waits).toEqual([]);
  });

  it("does not ask again after a fault of the program", async () => {
    const { model, asking } = failing([new TypeError("bug")]);
    await expect(asking.ask(request, never)).rejects.toThrow("bug");
    expect(model.callCount()).toBe(1);
  });

  it("tells of each wait before it", async () => {
    const told: unknown[] = [];
    const { asking } = failing([fault("retry", 7)], { onRetry: (retry) => told.push(retry) });
    await asking.ask(request, never);
    expect(told).toEqual([{ attempt: 1, attempts: 8, delayMs: 7, error: expect.any(ModelError) }]);
  });

  it.each([
    ["a server that never answers", 300_000, 2, 600_500],
    ["one that is slow to fail", 80_000, 7, 591_500],
    ["one that refuses at once", 0, 8, 61_500],
  ])("costs a bounded time with %s", async (_, requestMs, requests, totalMs) => {
    let clock = 0;
    const model = scriptedModel(() => {
      clock += requestMs;
      return fault("retry");
    });
    const sleep = async (delayMs: number) => {
      clock += delayMs;
    };
    const asking = retrying(model, { sleep, random: () => 0, now: () => clock });
    await expect(asking.ask(request, never)).rejects.toMatchObject({ kind: "retry" });
    expect([model.callCount(), clock]).toEqual([requests, totalMs]);
  });

  it("ends a wait at an abort, with its reason and without another request", async () => {
    const controller = new AbortController();
    const reason = new Error("stop");
    const model = scriptedModel(() => fault("retry", 60_000));
    const asking = retrying(model, { onRetry: () => setImmediate(() => controller.abort(reason)) });
    await expect(asking.ask(request, controller.signal)).rejects.toBe(reason);
    expect(model.callCount()).toBe(1);
  });

  it("honours a server that asks for a pause", async () => {
    const server = await startModelServer((_, requestNumber) =>
      requestNumber === 1
        ? { error: { status: 429, message: "slow down", retryAfter: 2 } }
        : { content: "hi" },
    );
    const waits: number[] = [];
    const sleep = async (delayMs: number) => {
      waits.push(delayMs);
    };
    const model = retrying(openaiModel({ baseUrl: server.url, apiKey: "k" }), { sleep, random: () => 0 });
    expect((await model.ask(request, never)).message.content).toBe("hi");
    expect(waits).toEqual([2_000]);
    expect(server.requests).toHaveLength(2);
    await server.close();
  });
});
