import { describe, expect, it } from "vitest";
import { noUsage } from "../../../src/model/model.ts";
import { firstStep, products, type StoreFactory, setScene, success, usage } from "./scene.ts";

const result = { seq: 4, step: 1, kind: "result", ordinal: 1, body: '{"r":1}', tokens: 3 } as const;
const done = { state: "done", note: "exit 0", activeMs: 20 } as const;

async function claimed(open: StoreFactory) {
  const scene = await setScene(open);
  await scene.add();
  const { claim } = await scene.take(await scene.addWorker());
  return { ...scene, claim, id: claim.runId };
}

export function describeSteps(open: StoreFactory): void {
  describe("the steps of a run", () => {
    it("begin with what the first owner fixed", async () => {
      const { store, claim, id } = await claimed(open);
      const spec = JSON.stringify({ fixed: true });
      const fixed = { spec, model: "m", baseCommit: "c0", baseTree: "t0" };
      const hash = await store.begin(claim, { ...fixed, prompt: "the prompt" });
      expect(await store.getBlob(hash)).toBe("the prompt");
      expect(await store.getRun(id)).toMatchObject({
        promptHash: hash,
        spec,
        model: "m",
        baseCommit: "c0",
        tree: "t0",
      });
      expect(await store.loadSnapshots(id)).toMatchObject([{ seq: 0, tree: "t0" }]);
      expect(await store.begin(claim, { ...fixed, prompt: "the prompt" })).toBe(hash);
    });

    it("commit a reply with its calls and what it cost", async () => {
      const { store, clock, claim, id } = await claimed(open);
      await firstStep(store, claim);
      expect(await store.getRun(id)).toMatchObject({
        seq: 3,
        steps: 1,
        activeMs: 7,
        promptTokens: 100,
        completionTokens: 10,
        cachedTokens: 50,
      });
      const messages = await store.loadMessages(id);
      expect(messages.map(({ seq, kind, epoch, at }) => [seq, kind, epoch, at])).toEqual([
        [1, "system", 1, clock.at],
        [2, "task", 1, clock.at],
        [3, "reply", 1, clock.at],
      ]);
      expect(await store.loadCalls(id)).toMatchObject([
        { step: 1, ordinal: 1, tool: "bash", class: "unsafe", state: "planned", providerId: "c1" },
        { step: 1, ordinal: 2, tool: "read_file", class: "pure", state: "planned", providerId: "c2" },
      ]);
      expect(await store.loadModelCalls(id)).toMatchObject([
        { n: 1, step: 1, state: "done", promptTokens: 100, reasoningTokens: 5, responseId: "r1" },
      ]);
    });

    it("start a call, then answer it once", async () => {
      const { store, clock, claim, id } = await claimed(open);
      await firstStep(store, claim);
      await store.startCall(claim, { step: 1, ordinal: 1 });
      expect((await store.loadCalls(id))[0]).toMatchObject({ state: "started", startedAt: clock.at });
      await store.appendResult(claim, result, done);
      expect((await store.loadCalls(id))[0]).toMatchObject({
        state: "done",
        resultSeq: 4,
        note: "exit 0",
        endedAt: clock.at,
      });
      expect((await store.getRun(id))?.activeMs).toBe(20);
      const again = { ...result, seq: 5 };
      await expect(store.appendResult(claim, again, done)).rejects.toThrow(/to be open/);
      await expect(store.startCall(claim, { step: 1, ordinal: 1 })).rejects.toThrow(/to be open/);
      await expect(store.startCall(claim, { step: 7, ordinal: 1 })).rejects.toThrow(/to be open/);
      expect(await store.loadMessages(id)).toHaveLength(4);
    });

    it("never write two messages at one seq, nor leave one out", async () => {
      const { store, claim, id } = await claimed(open);
      await firstStep(store, claim);
      for (const seq of [3, 5]) {
        const note = { seq, step: 1, kind: "note", body: "{}", tokens: 1 } as const;
        await expect(store.appendMessage(claim, note, 0)).rejects.toThrow();
      }
      expect((await store.loadMessages(id)).map(({ seq }) => seq)).toEqual([1, 2, 3]);
    });

    it("keep bytes as they are: NUL, half a surrogate pair, four megabytes", async () => {
      const { store, claim, id } = await claimed(open);
      const bodies = ["\u0000", "\ud800 half", "x".repeat(4_000_000)].map((text) => JSON.stringify({ text }));
      for (const [index, body] of bodies.entries()) {
        await store.appendMessage(claim, { seq: index + 1, step: 0, kind: "note", body, tokens: 1 }, 0);
      }
      expect((await store.loadMessages(id)).map(({ body }) => body)).toEqual(bodies);
    });

    it("settle a request once: failed after it was answered stays answered", async () => {
      const { store, claim, id } = await claimed(open);
      await firstStep(store, claim);
      await store.failModelCall(claim, { n: 1, error: "late", usage, responseId: "r2" }, 8);
      await store.plan(claim, { n: 2, step: 2, purpose: "step", model: "m" }, 0);
      await store.failModelCall(claim, { n: 2, error: "refused", usage: noUsage, responseId: null }, 9);
      const states = (await store.loadModelCalls(id)).map(({ state, error }) => [state, error]);
      expect(states).toEqual([
        ["done", null],
        ["failed", "refused"],
      ]);
      expect(await store.getRun(id)).toMatchObject({ promptTokens: 100, completionTokens: 10, activeMs: 9 });
    });

    it("pay for a reply that was of no use", async () => {
      const { store, claim, id } = await claimed(open);
      await firstStep(store, claim);
      await store.plan(claim, { n: 2, step: 1, purpose: "summary", model: "m" }, 0);
      await store.failModelCall(claim, { n: 2, error: "too long", usage, responseId: "r2" }, 9);
      const failed = { state: "failed", error: "too long", responseId: "r2", ...usage };
      expect((await store.loadModelCalls(id)).at(-1)).toMatchObject(failed);
      const spent = { promptTokens: 200, completionTokens: 20, cachedTokens: 100, activeMs: 9 };
      expect(await store.getRun(id)).toMatchObject(spent);
    });

    it("tell the owner at the next plan what was asked of the run", async () => {
      const { store, clock, claim, id } = await claimed(open);
      const plan = (n: number) => store.plan(claim, { n, step: 1, purpose: "step", model: "m" }, 0);
      expect(await plan(1)).toMatchObject({ cancelAt: null, pauseAt: null });
      await store.pause(id);
      await store.cancel(id);
      expect(await plan(2)).toMatchObject({ cancelAt: clock.at, pauseAt: clock.at });
      expect(await store.loadAsked(claim.workerId)).toEqual([{ id, cancelAt: clock.at, pauseAt: clock.at }]);
    });

    it("put a compaction beside the log and pay for its summary", async () => {
      const { store, claim, id } = await claimed(open);
      await firstStep(store, claim);
      await store.plan(claim, { n: 2, step: 1, purpose: "summary", model: "m" }, 0);
      const row = { n: 1, kind: "summary", throughSeq: 3, body: "the record", modelCall: 2 } as const;
      const settled = { n: 2, usage, responseId: null };
      await store.compact(claim, { ...row, tokensBefore: 90, tokensAfter: 10 }, settled, 30);
      expect(await store.loadCompactions(id)).toMatchObject([{ ...row, tokensBefore: 90, tokensAfter: 10 }]);
      expect((await store.loadModelCalls(id)).map(({ state }) => state)).toEqual(["done", "done"]);
      expect(await store.getRun(id)).toMatchObject({ seq: 3, promptTokens: 200, activeMs: 30 });
      expect(await store.loadMessages(id)).toHaveLength(3);
    });

    it("end in one outcome", async () => {
      const { store, clock, claim, id } = await claimed(open);
      await firstStep(store, claim);
      await store.finish(claim, { ...success, ...products, activeMs: 40 });
      const run = await store.getRun(id);
      expect(run).toMatchObject({
        ...{ status: "succeeded", reason: "finished", ownerId: null, activeMs: 40, finishedAt: clock.at },
        ...{ tree: "t1", headCommit: "h1", branch: "pawl/x" },
      });
      expect(JSON.parse(run?.outcome ?? "")).toEqual({
        result: "done",
        error: null,
        changedFiles: ["a.txt"],
        notes: [],
      });
      await expect(store.finish(claim, { ...success, ...products, activeMs: 41 })).rejects.toThrow();
      expect(await store.getRun(id)).toEqual(run);
    });

    it("are handed to the next owner as the tail of the log", async () => {
      const { store, claim, id } = await claimed(open);
      const hash = await store.begin(claim, {
        ...{ prompt: "p", spec: "{}", model: "m", baseCommit: null, baseTree: null },
      });
      await firstStep(store, claim);
      await store.startCall(claim, { step: 1, ordinal: 1 });
      await store.appendResult(claim, { ...result, ordinal: 2 }, done);
      await store.plan(claim, { n: 2, step: 2, purpose: "step", model: "m" }, 0);
      const tail = await store.loadTail(id, hash);
      expect(tail).toMatchObject({ prompt: "p", compaction: null, compactions: 0 });
      expect(tail.messages.map(({ seq }) => seq)).toEqual([1, 2, 3, 4]);
      expect(tail.openCalls.map(({ ordinal, state }) => [ordinal, state])).toEqual([[1, "started"]]);
      expect([tail.lastModelCall?.n, tail.lastAnswered?.n]).toEqual([2, 1]);
    });

    it("are handed on from the last compaction, the first two messages always", async () => {
      const { store, claim, id } = await claimed(open);
      await firstStep(store, claim);
      await store.appendResult(claim, result, done);
      await store.appendResult(claim, { ...result, seq: 5, ordinal: 2 }, done);
      const row = { kind: "digest", body: "b", modelCall: null, tokensBefore: 9, tokensAfter: 1 } as const;
      await store.compact(claim, { ...row, n: 1, throughSeq: 3 }, null, 0);
      await store.compact(claim, { ...row, n: 2, throughSeq: 4 }, null, 0);
      const tail = await store.loadTail(id, null);
      expect(tail.messages.map(({ seq }) => seq)).toEqual([1, 2, 5]);
      expect(tail).toMatchObject({ prompt: null, compactions: 2, compaction: { n: 2, throughSeq: 4 } });
    });
  });
}
