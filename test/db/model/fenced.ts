import { expect } from "vitest";
import type { Claim } from "../../../src/db/claim.ts";
import type { Store } from "../../../src/db/store.ts";
import { LeaseLostError } from "../../../src/errors.ts";
import { chargeOf, noCaps } from "../../../src/limits/budget.ts";
import { newTask, products, success, usage } from "../suite/scene.ts";
import { everything, isOwned, type ModelRun, type World } from "./world.ts";

/** A verb of an owner, with arguments that fit the run as it is now: so nothing but the fence can refuse a stale claim. */
interface FencedVerb {
  call(store: Store, claim: Claim, run: ModelRun, at: number): Promise<unknown>;
  /** What an owner would not ask for, is not tried; what the store must refuse, is. */
  fits?(run: ModelRun): boolean | "refused";
  /** What it does to the run. */
  apply(run: ModelRun, at: number, world: World, answer: unknown): void;
}

const spec = JSON.stringify(newTask().spec);
const maxCalls = 3;
/** The worst case of a request, and what it cost: sometimes more than that. */
const microOf = (at: number) => 1 + (at % 7);
const costOf = (run: ModelRun, at: number) => Math.max(0, run.openMicro - 3 + ((at >> 3) % 5));
const wakeSpanMs = 2000;
const callOf = (run: ModelRun) => run.openCalls[0] ?? { step: Math.max(1, run.steps), ordinal: 9 };
const wireId = ({ step, ordinal }: { step: number; ordinal: number }) => `w${step}.${ordinal}`;
const callsFor = (run: ModelRun, at: number) =>
  Array.from({ length: at % maxCalls }, (_, index) => ({ step: run.steps + 1, ordinal: index + 1 }));

export const fencedVerbs: Record<string, FencedVerb> = {
  begin: {
    call: (store, claim) =>
      store.begin(claim, { prompt: "p", spec, model: "m", baseCommit: null, baseTree: null }),
    apply(run) {
      run.hasBegun = true;
    },
  },
  confirmOwned: { call: (store, claim) => store.confirmOwned(claim), apply: () => {} },
  plan: {
    call(store, claim, run, at) {
      const worst = () => ({ micro: microOf(at), tokens: 1 });
      const budget = { task: noCaps, day: noCaps, isPriced: true, worst };
      const call = { n: run.requests + 1, step: run.steps + 1, purpose: "step" as const, model: "m", budget };
      return store.plan(claim, call, 0);
    },
    fits: (run) => run.openRequest === null && run.openCalls.length === 0,
    apply(run, at, world, answer) {
      const { budget } = world;
      const isRefused = budget.used + microOf(at) > budget.cap;
      const isPassing = [...world.runs.values()].some(
        (other) => other !== run && other.status === "running" && other.openRequest !== null,
      );
      expect(answer).toMatchObject({ refusal: isRefused ? { isPassing } : null });
      if (isRefused) {
        budget.isExhausted ||= !isPassing;
        world.seen.unaffordable += 1;
        return;
      }
      run.requests += 1;
      run.openRequest = run.requests;
      run.openMicro = microOf(at);
      budget.used += run.openMicro;
    },
  },
  reply: {
    call(store, claim, run, at) {
      const calls = callsFor(run, at).map((call) => ({
        ...{ ordinal: call.ordinal, tool: "bash", class: "unsafe", wireId: wireId(call) },
      }));
      const reserved = { micro: run.openMicro, tokens: 1 };
      const charge = chargeOf({ reserved, usage, costMicro: costOf(run, at) });
      const settled = { n: run.openRequest ?? run.requests + 1, usage, responseId: null, charge };
      const message = {
        seq: run.seq + 1,
        step: run.steps + 1,
        kind: "reply" as const,
        body: "{}",
        tokens: 1,
      };
      return store.appendReply(claim, message, { calls, settled, activeMs: 0 });
    },
    fits: (run) => run.openRequest !== null || "refused",
    apply(run, at, world) {
      world.budget.used += costOf(run, at) - run.openMicro;
      run.costMicro += costOf(run, at);
      run.openCalls = callsFor(run, at);
      run.seq += 1;
      run.steps += 1;
      run.openRequest = null;
      run.hasReplied = true;
    },
  },
  start: {
    call: (store, claim, run) => store.startCall(claim, callOf(run)),
    fits: (run) => run.openCalls.length > 0 || "refused",
    apply: () => {},
  },
  result: {
    call(store, claim, run) {
      const call = callOf(run);
      const body = JSON.stringify({ role: "tool", tool_call_id: wireId(call), content: "ok" });
      const message = { seq: run.seq + 1, kind: "result" as const, body, tokens: 1, ...call };
      return store.appendResult(claim, message, { state: "done", note: null, activeMs: 0 });
    },
    fits: (run) => run.openCalls.length > 0 || "refused",
    apply(run) {
      run.openCalls = run.openCalls.slice(1);
      run.seq += 1;
    },
  },
  wait: {
    call: (store, claim, _run, at) =>
      store.wait(claim, { kind: "timer", note: null, wakeAt: store.now() + (at % wakeSpanMs) }, 0),
    apply: (run, at, world) => letGo(run, world.now + (at % wakeSpanMs)),
  },
  release: {
    call: (store, claim) => store.release(claim, 0),
    apply: (run) => letGo(run, null),
  },
  finish: {
    call(store, claim, run) {
      const failure = { status: "failed", reason: "model_error", result: null, error: "e" } as const;
      const outcome = run.openCalls.length === 0 ? success : failure;
      return store.finish(claim, { ...outcome, ...products, activeMs: 0 });
    },
    apply(run) {
      run.status = run.openCalls.length === 0 ? "succeeded" : "failed";
      run.ownerId = null;
    },
  },
};

/** Tries a verb for a claim that may be stale, and checks that it does what it must: all of it, or nothing. */
export async function tryFenced(world: World, name: string, claim: Claim, at: number): Promise<void> {
  const verb = fencedVerbs[name];
  const run = world.runs.get(claim.runId);
  if (!verb || !run) throw new Error(`expected a fenced verb and a run, got ${name} of ${claim.runId}`);
  const owned = isOwned(world, claim);
  const fits = verb.fits?.(run) ?? true;
  if (owned && fits === false) return;
  const before = everything(world);
  let answer: unknown;
  const failure = await verb.call(world.store, claim, run, at).then(
    (value) => {
      answer = value;
      return null;
    },
    (error: unknown) => error,
  );
  if (owned && fits === true) {
    expect(failure, `${name} by the owner`).toBeNull();
    verb.apply(run, at, world, answer);
    world.seen.done += 1;
    return;
  }
  expect(failure instanceof LeaseLostError, `${name} is refused by the fence, got ${failure}`).toBe(!owned);
  expect(failure, `${name} is refused`).toBeInstanceOf(Error);
  expect(everything(world), "what is refused changes nothing").toBe(before);
  world.seen.refused += 1;
}

/** What is left of a run whose owner gave it back; a pause and a cancel that were asked for come to pass. */
function letGo(run: ModelRun, wakeAt: number | null): void {
  const isPaused = run.isPauseAsked;
  run.ownerId = null;
  run.status = isPaused || wakeAt !== null ? "waiting" : "queued";
  run.waitKind = isPaused ? "paused" : wakeAt !== null ? "timer" : null;
  run.wakeAt = isPaused ? null : wakeAt;
  run.isPauseAsked = false;
  if (run.hasReplied) run.deaths = 0;
  if (run.isCancelAsked) cancelUnowned(run);
}

/** A run that has begun is handed to a worker once more; another ends at once, and a retry has then replaced nothing. */
export function cancelUnowned(run: ModelRun): void {
  run.isCancelAsked = true;
  run.waitKind = null;
  run.wakeAt = null;
  run.status = run.hasBegun ? "queued" : "cancelled";
  if (run.hasBegun || run.replaces === null) return;
  run.isSuperseded = true;
  run.replaces.isSuperseded = false;
}
