import path from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { openStore } from "../../src/db/store.ts";
import { ModelError } from "../../src/errors.ts";
import { accountOf, type Gate, openGate, type Pass, type RateLimits } from "../../src/limits/gate.ts";
import { identity } from "../db/suite/scene.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const leaseMs = 10_000;
const busy = (retryAfterMs?: number) => new ModelError("retry", "slow down", { retryAfterMs, isLimit: true });
const noLimits: RateLimits = { requestsPerMinute: null, tokensPerMinute: null };

/** Processes that share a database and a clock, each with a worker and its gate. */
async function setUp(options: { processes?: number; limits?: Partial<RateLimits> } = {}) {
  const clock = { at: 1_700_000_000_000 };
  const file = path.join(temporaryFolder(), "pawl.db");
  const open = async () => {
    const store = await openStore({ file, now: () => clock.at });
    onTestFinished(() => store.close());
    const workerId = await store.registerWorker(identity, { version: "1", leaseMs });
    const limits = { ...noLimits, ...options.limits };
    const gate = openGate({ store, account: "http://here", limits, random: () => 0 });
    const enter = (model = "m", isLast = true) =>
      gate.enter({ model, isLast, workerId, tokens: () => 1_000 });
    return { store, gate, workerId, enter };
  };
  const processes = [await open()];
  while (processes.length < (options.processes ?? 1)) processes.push(await open());
  const [first, second] = processes;
  if (!first) throw new Error("expected a process");
  return { clock, ...first, second: second ?? first };
}

function passOf(answer: Awaited<ReturnType<Gate["enter"]>>): Pass {
  if ("until" in answer) throw new Error(`expected to pass, got ${JSON.stringify(answer)}`);
  return answer;
}

describe("the name of an account", () => {
  it("tells keys apart and holds none of them", () => {
    const names = ["sk-secret", "sk-other", null].map((key) => accountOf("https://api.example.com/v1", key));
    expect(new Set(names).size).toBe(3);
    expect(names.join()).not.toContain("secret");
    expect(names[2]).toBe("https://api.example.com");
  });
});

describe("a gate before a provider", () => {
  it("writes nothing as long as the provider refuses nothing", async () => {
    const { store, enter } = await setUp();
    for (const pass of [passOf(await enter()), passOf(await enter())]) pass.served();
    expect(await store.getGate("http://here m")).toBeUndefined();
  });

  it("is shut for all workers after one refusal, for that model alone", async () => {
    const { enter, second, clock } = await setUp({ processes: 2 });
    expect(await passOf(await enter()).refused(busy(3_000))).toBe(true);
    expect(await second.enter()).toMatchObject({
      reason: "busy",
      until: clock.at + 3_000,
      note: "slow down",
    });
    passOf(await second.enter("other")).left();
    clock.at += 3_000;
    passOf(await second.enter()).served();
  });

  it("counts what all workers have under way, and no more what a dead one had", async () => {
    const { store, workerId, enter, second, clock } = await setUp({ processes: 2 });
    const together = [
      passOf(await enter()),
      passOf(await enter()),
      passOf(await enter()),
      passOf(await enter()),
    ];
    for (const pass of together) await pass.refused(busy(0));
    clock.at += 1_000;
    const held = [passOf(await enter()), passOf(await enter())];
    expect(await second.enter()).toMatchObject({ reason: "pace" });
    held[0]?.served();
    await expect.poll(() => second.enter().then((answer) => "until" in answer)).toBe(false);
    expect(await second.enter()).toMatchObject({ reason: "pace" });
    await store.removeWorker(workerId, "dead");
    passOf(await second.enter()).left();
  });

  it("frees the places of a worker whose lease has run out", async () => {
    const { enter, second, store, clock } = await setUp({ processes: 2 });
    await passOf(await enter()).refused(busy(0));
    clock.at += 1_000;
    passOf(await enter());
    expect(await second.enter()).toMatchObject({ reason: "pace" });
    clock.at += leaseMs;
    const workerId = await store.registerWorker(identity, { version: "1", leaseMs });
    passOf(await second.gate.enter({ model: "m", isLast: true, workerId, tokens: () => 0 }));
  });

  it("is shut after a refused key until people say so, and then open at once", async () => {
    const { enter, second, store, clock } = await setUp({ processes: 2 });
    await passOf(await enter()).refused(new ModelError("auth", "no such key"));
    clock.at += 1e9;
    expect(await second.enter()).toEqual({ reason: "auth", note: "no such key", until: null });
    expect(await second.gate.look({ model: "m", isLast: true })).toMatchObject({ reason: "auth" });
    expect(await store.loadShutGates()).toMatchObject([{ name: "http://here m", reason: "auth" }]);
    expect(await store.openGates()).toBe(1);
    expect(await second.gate.look({ model: "m", isLast: true })).toBeNull();
  });

  it("lets other failures be, as they say nothing of the provider's limits", async () => {
    const { enter, store } = await setUp();
    const errors = [
      new ModelError("retry", "broken"),
      new ModelError("invalid", "what?"),
      new TypeError("bug"),
    ];
    for (const error of errors) expect(await passOf(await enter()).refused(error)).toBe(false);
    expect(await store.getGate("http://here m")).toBeUndefined();
  });

  it("holds back from a model that failed only those who have another one", async () => {
    const { enter, clock } = await setUp();
    await passOf(await enter()).failed(new ModelError("retry", "down"));
    expect(await enter("m", false)).toMatchObject({ reason: "failing", until: clock.at + 600_000 });
    passOf(await enter("m", true)).left();
  });

  it("keeps to the requests and the tokens of a minute over all workers", async () => {
    const requests = await setUp({ processes: 2, limits: { requestsPerMinute: 60 } });
    passOf(await requests.enter()).served();
    expect(await requests.second.enter()).toMatchObject({ until: requests.clock.at + 1_000 });
    const tokens = await setUp({ processes: 2, limits: { requestsPerMinute: 600, tokensPerMinute: 30_000 } });
    passOf(await tokens.enter()).served();
    expect(await tokens.second.enter()).toMatchObject({ until: tokens.clock.at + 2_000 });
  });

  it("lets each of many that ask at the same time pass once a turn", async () => {
    const { enter, second, clock } = await setUp({ processes: 2, limits: { requestsPerMinute: 600 } });
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, index) => (index % 2 ? enter() : second.enter())),
    );
    expect(all.filter((answer) => !("until" in answer))).toHaveLength(1);
    clock.at += 100;
    passOf(await enter());
  });
});
