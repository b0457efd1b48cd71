import { describe, expect, it } from "vitest";
import type { Claim } from "../../../src/db/claim.ts";
import type { Store } from "../../../src/db/store.ts";
import { LeaseLostError } from "../../../src/errors.ts";
import {
  everythingOf,
  firstStep,
  leaseMs,
  products,
  type Scene,
  type StoreFactory,
  setScene,
  success,
  usage,
} from "./scene.ts";

type Verb = (store: Store, claim: Claim) => Promise<unknown>;

const message = { seq: 4, step: 1, body: "{}", tokens: 1 };

/** Every verb that takes a claim, as it works for the owner of a run after its first step with a request open. */
const fencedVerbs: Record<string, Verb> = {
  addEvent: (store, claim) => store.addEvent(claim, { kind: "noted", data: {} }),
  begin: (store, claim) =>
    store.begin(claim, { prompt: "p", spec: "{}", model: "m", baseCommit: "c", baseTree: "t" }),
  changePrompt: (store, claim) =>
    store.changePrompt(claim, {
      ...{ prompt: "other", spec: "{}", seq: 4, tokens: 1 },
      event: { kind: "protocol_changed", data: {} },
    }),
  plan: (store, claim) => store.plan(claim, { n: 3, step: 2, purpose: "step", model: "m" }, 9),
  appendReply: (store, claim) =>
    store.appendReply(
      claim,
      { ...message, step: 2, kind: "reply" },
      { calls: [], settled: { n: 2, usage, responseId: null }, activeMs: 9 },
    ),
  appendMessage: (store, claim) => store.appendMessage(claim, { ...message, kind: "note" }, 9),
  startCall: (store, claim) => store.startCall(claim, { step: 1, ordinal: 1 }),
  appendResult: (store, claim) =>
    store.appendResult(
      claim,
      { ...message, kind: "result", ordinal: 1 },
      { state: "done", note: null, activeMs: 9 },
    ),
  failModelCall: (store, claim) =>
    store.failModelCall(claim, { n: 2, error: "no", usage, responseId: null }, 0),
  compact: (store, claim) =>
    store.compact(
      claim,
      { n: 1, kind: "digest", throughSeq: 3, body: "b", modelCall: 2, tokensBefore: 9, tokensAfter: 1 },
      null,
      9,
    ),
  finish: (store, claim) => store.finish(claim, { ...success, ...products, activeMs: 9 }),
  release: (store, claim) => store.release(claim, 9),
  wait: (store, claim) => store.wait(claim, { kind: "timer", note: "n", wakeAt: 5 }, 9),
};
/** Those that only look. */
const fencedLooks: Record<string, Verb> = {
  confirmOwned: (store, claim) => store.confirmOwned(claim),
};
const allFenced = { ...fencedVerbs, ...fencedLooks };

/** How a claim is lost. */
const losses: Record<string, (scene: Scene, workerId: string) => Promise<unknown>> = {
  "of an old epoch": async ({ store, addWorker, take }, workerId) => {
    await store.removeWorker(workerId, "dead");
    await take(await addWorker());
  },
  "whose lease has run out": async ({ clock }) => {
    clock.at += leaseMs;
  },
  "of a worker that was removed": ({ store }, workerId) => store.removeWorker(workerId, "dead"),
  "whose run another epoch of the same worker owns": async ({ store, take }, workerId) => {
    const [run] = await store.loadRuns({});
    await store.release({ runId: run?.id ?? "", workerId, epoch: 1 }, 0);
    await take(workerId);
  },
};

async function owned(open: StoreFactory) {
  const scene = await setScene(open);
  await scene.add();
  const workerId = await scene.addWorker();
  const { claim } = await scene.take(workerId);
  await firstStep(scene.store, claim);
  await scene.store.plan(claim, { n: 2, step: 2, purpose: "step", model: "m" }, 8);
  return { scene, workerId, claim };
}

export function describeFence(open: StoreFactory): void {
  describe("the fence", () => {
    it.each(Object.entries(fencedVerbs))("lets the owner %s", async (_, verb) => {
      const { scene, claim } = await owned(open);
      const before = await everythingOf(scene.store, claim.runId);
      await verb(scene.store, claim);
      expect(await everythingOf(scene.store, claim.runId)).not.toEqual(before);
    });

    it.each(Object.entries(fencedLooks))("lets the owner %s, which changes nothing", async (_, verb) => {
      const { scene, claim } = await owned(open);
      const before = await everythingOf(scene.store, claim.runId);
      await verb(scene.store, claim);
      expect(await everythingOf(scene.store, claim.runId)).toEqual(before);
    });

    describe.each(Object.entries(losses))("refuses a claim %s", (_, lose) => {
      it.each(Object.entries(allFenced))("to %s, and changes nothing", async (_, verb) => {
        const { scene, workerId, claim } = await owned(open);
        await lose(scene, workerId);
        const before = await everythingOf(scene.store, claim.runId);
        await expect(verb(scene.store, claim)).rejects.toBeInstanceOf(LeaseLostError);
        expect(await everythingOf(scene.store, claim.runId)).toEqual(before);
      });
    });

    it("knows every verb that takes a claim", async () => {
      const { store } = await setScene(open);
      const unfenced = [
        ...["enqueue", "claim", "cancel", "pause", "resume", "retry", "wakeDue", "loadUnpublished"],
        ...["markPublished", "registerWorker", "keepLease", "loadWorkers", "removeWorker"],
        ...["dataVersion"],
        ...["getRun", "findRun", "loadRuns", "loadTail", "loadMessages", "getBlob", "putBlob", "loadCalls"],
        ...["loadModelCalls", "loadCompactions", "loadSnapshots", "loadEvents", "countRuns", "countOwned"],
        ...[
          "loadAsked",
          ...["setBatchBudget", "setDayBudget", "loadBudgets"],
          "hasWork",
          "hasRunWithoutModel",
          "getLaneHolder",
          "getStep",
          "waitForRoom",
          "fork",
          "addUnownedEvent",
          "copyOrigin",
          "takeOverLost",
          "hasProgress",
          "requireInPlace",
          "endCancelled",
          "loadClaimable",
          "loadStale",
          "claimReconcile",
          "getIncarnation",
          "setIncarnation",
          "now",
          "close",
        ],
        ...["changeGate", "countWaiting", "getGate", "loadShutGates", "openGates"],
        ...["askToStop", "getStopReason", "getWorker", "noteWorker", "loadEndedRuns"],
      ];
      expect(Object.keys(store).toSorted()).toEqual([...unfenced, ...Object.keys(allFenced)].toSorted());
    });
  });
}
