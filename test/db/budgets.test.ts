import path from "node:path";
import fc from "fast-check";
import { describe, expect, it, onTestFinished } from "vitest";
import type { Claim } from "../../src/db/claim.ts";
import { openStore, type Store } from "../../src/db/store.ts";
import { type BudgetWish, type Caps, chargeOf, noCaps, type Reserved } from "../../src/limits/budget.ts";
import { noUsage, unbilled } from "../../src/model/model.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { failure, newTask, products, type Scene, setScene } from "./suite/scene.ts";

const open = ({ now }: { now: () => number }) =>
  openStore({ file: path.join(temporaryFolder(), "pawl.db"), now });

interface Wish {
  micro: number | null;
  tokens?: number;
  task?: Caps;
  day?: Caps;
}

function wish({ micro, tokens = 100, task = noCaps, day = noCaps }: Wish): BudgetWish {
  return { task, day, isPriced: micro !== null, worst: () => ({ micro, tokens }) };
}

const usd = (micro: number): Caps => ({ micro, tokens: null });

/** A run of the batch `night` with a worker of its own. */
async function begin({ store, add, addWorker, take }: Scene): Promise<Claim> {
  await add({ batch: "night" });
  const { claim } = await take(await addWorker(1e9));
  await store.begin(claim, { prompt: "p", spec: "{}", model: "m", baseCommit: null, baseTree: null });
  return claim;
}

const plan = (store: Store, claim: Claim, n: number, wanted: Wish) =>
  store.plan(claim, { n, step: 1, purpose: "step", model: "m", budget: wish(wanted) }, 0);

const fail = (
  store: Store,
  claim: Claim,
  n: number,
  reserved: Reserved,
  ended = { usage: noUsage, costMicro: null as number | null },
) =>
  store.failModelCall(
    claim,
    { n, error: "no", responseId: null, usage: ended.usage, charge: chargeOf({ reserved, ...ended }) },
    0,
  );

const counted = (promptTokens: number, completionTokens: number) => ({
  ...noUsage,
  promptTokens,
  completionTokens,
});
const used = async (store: Store) => {
  const [budget] = await store.loadBudgets();
  return budget && [budget.usedMicro, budget.usedTokens];
};

describe("a request within a batch's budget", () => {
  it("has its worst case set aside when it is planned and pays what it cost when it ends", async () => {
    const scene = await setScene(open);
    const { store } = scene;
    await store.setBatchBudget("night", usd(1000));
    const claim = await begin(scene);
    const { reserved, refusal } = await plan(store, claim, 1, { micro: 600 });
    expect([reserved, refusal]).toEqual([{ micro: 600, tokens: 100 }, null]);
    expect(await used(store)).toEqual([600, 100]);
    await fail(store, claim, 1, reserved, { usage: counted(30, 4), costMicro: 250 });
    expect(await used(store)).toEqual([250, 34]);
    expect(await store.getRun(claim.runId)).toMatchObject({
      costMicro: 250,
      unpricedCalls: 0,
      promptTokens: 30,
    });
    expect(await store.loadModelCalls(claim.runId)).toMatchObject([{ costMicro: 250, reservedMicro: 600 }]);
  });

  it("gives all back where the provider did nothing, and keeps all where nobody knows", async () => {
    const scene = await setScene(open);
    const { store } = scene;
    await store.setBatchBudget("night", usd(1000));
    const claim = await begin(scene);
    const first = await plan(store, claim, 1, { micro: 400 });
    await fail(store, claim, 1, first.reserved, { usage: unbilled.usage, costMicro: 0 });
    expect(await used(store)).toEqual([0, 0]);
    const second = await plan(store, claim, 2, { micro: 400 });
    await fail(store, claim, 2, second.reserved);
    expect(await used(store)).toEqual([400, 100]);
    expect(await store.getRun(claim.runId)).toMatchObject({
      costMicro: 400,
      uncountedTokens: 100,
      promptTokens: 0,
    });
  });

  it("is refused where it does not fit, leaves no row, and holds back what has not begun", async () => {
    const scene = await setScene(open);
    const { store, add, addWorker, clock } = scene;
    await store.setBatchBudget("night", usd(1000));
    const claim = await begin(scene);
    const later = await add({ batch: "night" });
    const { refusal } = await plan(store, claim, 1, { micro: 1001 });
    const facts = { scope: "batch", batch: "night", unit: "usd", cap: 1000, used: 0, needed: 1001 };
    expect(refusal).toEqual({ ...facts, isPassing: false, wakeAt: null });
    expect(await store.loadModelCalls(claim.runId)).toEqual([]);
    const worker = await addWorker(1e9);
    expect(await store.claim(worker)).toBeUndefined();
    await store.finish(claim, { ...failure, ...products, activeMs: 0 });
    expect(await store.hasWork(clock.at)).toBe(false);
    await store.setBatchBudget("night", usd(2000));
    expect(await store.hasWork(clock.at)).toBe(true);
    expect((await store.claim(worker))?.id).toBe(later);
  });

  it("is told to wait as long as others may give something back", async () => {
    const scene = await setScene(open);
    const { store, clock } = scene;
    await store.setBatchBudget("night", usd(1000));
    const [a, b] = [await begin(scene), await begin(scene)];
    const { reserved } = await plan(store, a, 1, { micro: 700 });
    expect((await plan(store, b, 1, { micro: 400 })).refusal).toMatchObject({
      isPassing: true,
      wakeAt: clock.at + 60_000,
    });
    await fail(store, a, 1, reserved, { usage: counted(1, 1), costMicro: 100 });
    expect((await plan(store, b, 1, { micro: 400 })).refusal).toBeNull();
  });

  it("is claimed again where its run has begun or was cancelled, whatever the budget", async () => {
    const scene = await setScene(open);
    const { store, addWorker, take } = scene;
    await store.setBatchBudget("night", usd(10));
    const claim = await begin(scene);
    await plan(store, claim, 1, { micro: 11 });
    await store.wait(claim, { kind: "quota", note: null, wakeAt: null }, 0);
    await store.cancel(claim.runId);
    expect((await take(await addWorker(1e9))).row.id).toBe(claim.runId);
  });
});

describe("a request that was lost with its worker", () => {
  it("keeps what was set aside for it, in the budget and in its run", async () => {
    const scene = await setScene(open);
    const { store, addWorker, take } = scene;
    await store.setBatchBudget("night", usd(1000));
    const claim = await begin(scene);
    await plan(store, claim, 1, { micro: 600 });
    await store.removeWorker(claim.workerId, "dead");
    const next = await take(await addWorker(1e9));
    expect(await used(store)).toEqual([600, 100]);
    expect(await store.getRun(claim.runId)).toMatchObject({
      costMicro: 600,
      uncountedTokens: 100,
      unpricedCalls: 0,
    });
    expect((await plan(store, next.claim, 2, { micro: 401 })).refusal).toMatchObject({ used: 600 });
    expect(await store.loadModelCalls(claim.runId)).toMatchObject([{ state: "lost", costMicro: 600 }]);
  });

  it("has an unknown cost where nothing was set aside", async () => {
    const scene = await setScene(open);
    const { store, addWorker, take } = scene;
    const claim = await begin(scene);
    await plan(store, claim, 1, { micro: null });
    await store.removeWorker(claim.workerId, "dead");
    await take(await addWorker(1e9));
    expect(await store.getRun(claim.runId)).toMatchObject({ costMicro: 0, unpricedCalls: 1 });
  });
});

describe("the budget of a task", () => {
  it("counts all requests of the run, also those that nobody counted", async () => {
    const scene = await setScene(open);
    const { store } = scene;
    const claim = await begin(scene);
    const task = { micro: 1000, tokens: 250 };
    const first = await plan(store, claim, 1, { micro: 300, task });
    await fail(store, claim, 1, first.reserved);
    const second = await plan(store, claim, 2, { micro: 700, task });
    expect(second.refusal).toBeNull();
    await fail(store, claim, 2, second.reserved, { usage: counted(40, 20), costMicro: 100 });
    expect((await plan(store, claim, 3, { micro: 601, task })).refusal).toMatchObject({
      scope: "task",
      used: 400,
    });
    expect((await plan(store, claim, 3, { micro: 1, task })).refusal).toMatchObject({
      unit: "tokens",
      used: 160,
    });
    expect(await store.loadBudgets(), "no row is written for it").toEqual([]);
  });

  it("in dollars refuses a request of unknown price, and so does that of a batch, without closing it", async () => {
    const scene = await setScene(open);
    const { store } = scene;
    await store.setBatchBudget("night", usd(1000));
    const claim = await begin(scene);
    const byTask = await plan(store, claim, 1, { micro: null, task: usd(1) });
    const byBatch = await plan(store, claim, 1, { micro: null });
    expect([byTask.refusal, byBatch.refusal]).toMatchObject([
      { scope: "task", needed: null },
      { scope: "batch", needed: null, isPassing: false },
    ]);
    expect((await store.loadBudgets())[0]?.exhaustedAt).toBeNull();
  });
});

describe("the budget of a day", () => {
  const day = usd(1000);

  it("begins anew at midnight; what was planned before pays on its own day", async () => {
    const scene = await setScene(open);
    const { store, clock } = scene;
    clock.at = Date.parse("2026-06-01T23:59:59.999Z");
    const claim = await begin(scene);
    const { reserved } = await plan(store, claim, 1, { micro: 900, day });
    clock.at += 1;
    await fail(store, claim, 1, reserved, { usage: counted(5, 5), costMicro: 500 });
    const next = await plan(store, claim, 2, { micro: 1000, day });
    expect(next.refusal).toBeNull();
    clock.at -= 1;
    expect(await store.loadBudgets()).toMatchObject([
      { scope: "day:2026-06-01", usedMicro: 500, usedTokens: 10 },
    ]);
    clock.at += 1;
    expect(await store.loadBudgets()).toMatchObject([{ scope: "day:2026-06-02", usedMicro: 1000 }]);
  });

  it("that is used up lets runs look again at midnight, and begins none before", async () => {
    const scene = await setScene(open);
    const { store, add, addWorker, clock } = scene;
    clock.at = Date.parse("2026-06-01T10:00:00Z");
    const claim = await begin(scene);
    await add();
    const midnight = Date.parse("2026-06-02T00:00:00Z");
    expect((await plan(store, claim, 1, { micro: 1001, day })).refusal).toMatchObject({
      scope: "day",
      wakeAt: midnight,
    });
    const worker = await addWorker(1e9);
    expect(await store.claim(worker)).toBeUndefined();
    clock.at = midnight;
    expect(await store.claim(worker)).toBeDefined();
  });

  it("counts what was used that day before it was set, and not what was used the day before", async () => {
    const scene = await setScene(open);
    const { store, clock } = scene;
    clock.at = Date.parse("2026-06-01T23:00:00Z");
    const claim = await begin(scene);
    const spend = async (n: number, costMicro: number) => {
      const { reserved } = await plan(store, claim, n, { micro: 2000 });
      await fail(store, claim, n, reserved, { usage: counted(1, 1), costMicro });
    };
    await spend(1, 777);
    clock.at = Date.parse("2026-06-02T01:00:00Z");
    await spend(2, 600);
    expect((await plan(store, claim, 3, { micro: 401, day })).refusal).toMatchObject({ used: 600 });
    expect((await plan(store, claim, 3, { micro: 400, day })).refusal).toBeNull();
  });

  it("that is changed lets work begin again", async () => {
    const scene = await setScene(open);
    const { store } = scene;
    const claim = await begin(scene);
    await plan(store, claim, 1, { micro: 1001, day });
    expect(await store.setDayBudget(usd(1000))).toBe(false);
    expect(await store.setDayBudget(usd(5000))).toBe(true);
    expect((await plan(store, claim, 1, { micro: 1001, day })).refusal).toBeNull();
  });
});

describe("a budget that is set later", () => {
  it("counts what the batch has used, and a bound that is left out stays", async () => {
    const scene = await setScene(open);
    const { store } = scene;
    const claim = await begin(scene);
    const first = await plan(store, claim, 1, { micro: 500 });
    await fail(store, claim, 1, first.reserved, { usage: counted(10, 5), costMicro: 300 });
    const second = await plan(store, claim, 2, { micro: 500 });
    const { before, after } = await store.setBatchBudget("night", { tokens: 5000 });
    expect([before, after]).toMatchObject([undefined, { capMicro: null, capTokens: 5000, usedMicro: 800 }]);
    await fail(store, claim, 2, second.reserved, { usage: counted(10, 5), costMicro: 100 });
    expect(await store.setBatchBudget("night", { micro: 9000 })).toMatchObject({
      before: { capMicro: null },
      after: { capMicro: 9000, capTokens: 5000, usedMicro: 400, usedTokens: 30 },
    });
  });
});

describe("a budget that others set", () => {
  it("of the day holds for workers without one too: they give back only what they took", async () => {
    const scene = await setScene(open);
    const { store } = scene;
    const claim = await begin(scene);
    const first = await plan(store, claim, 1, { micro: 400, day: usd(1000) });
    await fail(store, claim, 1, first.reserved, { usage: counted(30, 4), costMicro: 400 });
    const second = await plan(store, claim, 2, { micro: 500 });
    expect(await used(store)).toEqual([900, 134]);
    await fail(store, claim, 2, second.reserved, { usage: counted(30, 4), costMicro: 100 });
    expect(await used(store)).toEqual([500, 68]);
    expect((await plan(store, claim, 3, { micro: 501 })).refusal).toMatchObject({ scope: "day" });
  });

  it("of the batch, raised while a run was about to wait for it, lets the run go on", async () => {
    const scene = await setScene(open);
    const { store } = scene;
    await store.setBatchBudget("night", usd(100));
    const claim = await begin(scene);
    const wait = { kind: "quota" as const, note: "used up", wakeAt: null };
    expect((await plan(store, claim, 1, { micro: 500 })).refusal).toMatchObject({ isPassing: false });
    await store.setBatchBudget("night", usd(1000));
    await store.wait(claim, wait, 0);
    expect(await store.getRun(claim.runId)).toMatchObject({ status: "queued", waitKind: null });
  });
});

it("several processes that race for the last cent never take more than there is", async () => {
  const cap = fc.integer({ min: 1, max: 400 });
  const sizes = fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 4, maxLength: 40 });
  const race = fc.asyncProperty(cap, sizes, async (capMicro, amounts) => {
    const file = path.join(temporaryFolder(), "pawl.db");
    const stores = [await openStore({ file }), await openStore({ file }), await openStore({ file })];
    onTestFinished(
      async () => void (await Promise.all(stores.map((store) => store.close().catch(() => {})))),
    );
    const [first = stores[0] as Store] = stores;
    await first.setBatchBudget("night", usd(capMicro));
    await first.enqueue(stores.map(() => newTask({ batch: "night" })));
    const spenders = stores.map((store, index) =>
      spendAll(
        store,
        amounts.filter((_, n) => n % stores.length === index),
      ),
    );
    const results = await Promise.all(spenders);
    const taken = results.flatMap((result) => result.taken);
    const sum = taken.reduce((total, micro) => total + micro, 0);
    expect(sum).toBeLessThanOrEqual(capMicro);
    expect(await used(first)).toEqual([sum, 100 * taken.length]);
    const refused = results.flatMap((result) => result.refused);
    expect(
      refused.filter((micro) => micro <= capMicro - sum),
      "nothing is refused that fitted",
    ).toEqual([]);
    await Promise.all(stores.map((store) => store.close()));
  });
  await fc.assert(race, { numRuns: 25, interruptAfterTimeLimit: 20_000 });
}, 60_000);

/** Makes requests of these sizes one after the other, keeps what it is given, and says what that was. */
async function spendAll(store: Store, amounts: number[]): Promise<{ taken: number[]; refused: number[] }> {
  const identity = { host: "h", bootId: null, pidNamespace: null, pid: 1, startTicks: null };
  const workerId = await store.registerWorker(identity, { version: "1", leaseMs: 60_000 });
  const row = await store.claim(workerId);
  const claim = { runId: row?.id ?? "", workerId, epoch: row?.epoch ?? 0 };
  const taken: number[] = [];
  const refused: number[] = [];
  for (const micro of amounts) {
    const { refusal, reserved } = await plan(store, claim, taken.length + 1, { micro });
    if (refusal) refused.push(micro);
    if (refusal) continue;
    taken.push(micro);
    await fail(store, claim, taken.length, reserved);
  }
  return { taken, refused };
}
