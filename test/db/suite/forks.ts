import { describe, expect, it } from "vitest";
import type { Claim } from "../../../src/db/claim.ts";
import type { Store } from "../../../src/db/store.ts";
import {
  firstReply,
  firstStep,
  products,
  type Scene,
  type StoreFactory,
  setScene,
  success,
} from "./scene.ts";

const message = { body: "{}", tokens: 1 };
const result = { ...message, step: 1, kind: "result", state: "done" } as const;
const done = { state: "done", note: null, activeMs: 20 } as const;

/** A run that has ended after one step; its workspace changed with each of the two results. */
async function endedRun(open: StoreFactory) {
  const scene = await setScene(open);
  const { store } = scene;
  await scene.add({ key: "k" });
  const workerId = await scene.addWorker();
  const { claim } = await scene.take(workerId);
  const fixed = { model: "m", baseCommit: "c0", baseTree: "t0" };
  const row = await store.getRun(claim.runId);
  await store.begin(claim, { ...fixed, spec: row?.spec ?? "", prompt: "the prompt" });
  await firstStep(store, claim);
  await store.appendResult(claim, { ...result, seq: 4, ordinal: 1, tree: "t1" }, done);
  await store.appendResult(claim, { ...result, seq: 5, ordinal: 2, tree: "t2" }, done);
  return { ...scene, workerId, claim, id: claim.runId };
}

async function copyAll(store: Store, claim: Claim): Promise<number> {
  let pages = 1;
  while (!(await store.copyOrigin(claim))) pages += 1;
  return pages;
}

async function forkOf(scene: Scene & { id: string; workerId: string }, step: number) {
  const fork = await scene.store.fork(scene.id, { step, followUp: "go on" });
  const { row, claim } = await scene.take(scene.workerId);
  expect(row.id).toBe(fork);
  return claim;
}

export function describeForks(open: StoreFactory): void {
  describe("a fork", () => {
    it("has the log and the snapshots up to its step, no key, and none of the steps, time or tokens", async () => {
      const scene = await endedRun(open);
      const { store, id } = scene;
      await store.finish(scene.claim, { ...success, ...products, activeMs: 20 });
      const claim = await forkOf(scene, 1);
      expect(await copyAll(store, claim)).toBe(1);
      const [copied, original] = await Promise.all([claim.runId, id].map((each) => store.loadMessages(each)));
      const bare = (rows = copied) => rows?.map(({ id: _id, runId: _run, epoch: _epoch, ...row }) => row);
      expect(bare()).toEqual(bare(original));
      expect(await store.loadSnapshots(claim.runId)).toMatchObject([
        { seq: 0, tree: "t0" },
        { seq: 4, tree: "t1" },
        { seq: 5, tree: "t2" },
      ]);
      const run = await store.getRun(claim.runId);
      expect(run).toMatchObject({
        ...{ key: null, origin: "fork", originRunId: id, originSeq: 5, tree: "t2", baseCommit: "c0" },
        ...{ seq: 5, steps: 0, activeMs: 0, promptTokens: 0 },
      });
      expect((await store.loadTail(claim.runId, run?.promptHash ?? null)).copiedSteps).toBe(1);
      await store.plan(claim, { n: 1, step: 2, purpose: "step", model: "m" }, 0);
      await store.appendReply(claim, { ...message, seq: 6, step: 2, kind: "reply" }, firstReply);
      expect(await store.getRun(claim.runId)).toMatchObject({ seq: 6, steps: 1 });
    });

    it("of the beginning has the first messages and the base", async () => {
      const scene = await endedRun(open);
      const claim = await forkOf(scene, 0);
      await copyAll(scene.store, claim);
      expect(await scene.store.getRun(claim.runId)).toMatchObject({ seq: 2, steps: 0, tree: "t0" });
    });

    it("copies a long log in parts, and a later owner goes on with it", async () => {
      const scene = await endedRun(open);
      const { store } = scene;
      for (let seq = 6; seq <= 1200; seq += 1)
        void store.appendMessage(scene.claim, { ...message, seq, step: 1, kind: "note" }, 0);
      await store.appendMessage(scene.claim, { ...message, seq: 1201, step: 1, kind: "note" }, 0);
      const first = await forkOf(scene, 1);
      expect(await store.copyOrigin(first)).toBe(false);
      await store.release(first, 0);
      const { claim } = await scene.take(scene.workerId);
      expect(await copyAll(store, claim)).toBe(2);
      const messages = await store.loadMessages(claim.runId);
      expect(messages.map(({ seq }) => seq)).toEqual(Array.from({ length: 1201 }, (_, at) => at + 1));
    });

    it("has the summaries that stood at its step, and no later ones", async () => {
      const scene = await endedRun(open);
      const { store, clock } = scene;
      const compaction = { kind: "digest", throughSeq: 3, body: "early", modelCall: 1 } as const;
      const counts = { tokensBefore: 9, tokensAfter: 1 };
      await store.compact(scene.claim, { ...compaction, ...counts, n: 1 }, null, 0);
      clock.at += 10;
      await store.appendMessage(scene.claim, { ...message, seq: 6, step: 1, kind: "note" }, 0);
      clock.at += 10;
      await store.compact(scene.claim, { ...compaction, ...counts, n: 2, body: "late" }, null, 0);
      const claim = await forkOf(scene, 1);
      await copyAll(store, claim);
      expect(await store.loadCompactions(claim.runId)).toMatchObject([
        { n: 1, body: "early", modelCall: null },
      ]);
    });

    it("that is retried forks again", async () => {
      const scene = await endedRun(open);
      const { store } = scene;
      const claim = await forkOf(scene, 1);
      await copyAll(store, claim);
      await store.finish(claim, { ...success, ...products, activeMs: 1 });
      const again = await store.retry(claim.runId);
      expect(await store.getRun(again)).toMatchObject({
        ...{ origin: "fork", originRunId: scene.id, originSeq: 5, attempt: 2, seq: 0 },
      });
      const { claim: second } = await scene.take(scene.workerId);
      await copyAll(store, second);
      expect(await store.getRun(again)).toMatchObject({ seq: 5, tree: "t2" });
    });

    it("of a step that is not there, not answered or without snapshots is refused", async () => {
      const scene = await setScene(open);
      const { store } = scene;
      const id = await scene.add();
      const fork = (step: number) => store.fork(id, { step, followUp: null });
      await expect(fork(0)).rejects.toThrow(/expected a step that run \w+ has, got 0/);
      const { claim } = await scene.take(await scene.addWorker());
      await firstStep(store, claim);
      await expect(fork(2)).rejects.toThrow(/expected a step that run \w+ has, got 2/);
      await expect(fork(1)).rejects.toThrow(/expected a step whose calls are answered, got 1/);
      await expect(fork(0)).rejects.toThrow(/has no snapshot of its workspace up to step 0/);
    });
  });
}
