import { describe, expect, it } from "vitest";
import type { Claim } from "../../../src/db/claim.ts";
import { requireRetryable } from "../../../src/db/steer.ts";
import type { Status } from "../../../src/outcome.ts";
import { failure, newTask, products, type Scene, type StoreFactory, setScene, success } from "./scene.ts";

type Steering = "cancel" | "pause" | "resume";

/** What each request does to a run in each status: the status afterwards, and whether anything changed. */
const effects: [Status, Steering, { status: Status; changed: boolean }][] = [
  ["queued", "cancel", { status: "cancelled", changed: true }],
  ["queued", "pause", { status: "waiting", changed: true }],
  ["queued", "resume", { status: "queued", changed: false }],
  ["running", "cancel", { status: "running", changed: true }],
  ["running", "pause", { status: "running", changed: true }],
  ["running", "resume", { status: "running", changed: false }],
  ["waiting", "cancel", { status: "cancelled", changed: true }],
  ["waiting", "pause", { status: "waiting", changed: true }],
  ["waiting", "resume", { status: "queued", changed: true }],
  ["succeeded", "cancel", { status: "succeeded", changed: false }],
  ["succeeded", "pause", { status: "succeeded", changed: false }],
  ["succeeded", "resume", { status: "succeeded", changed: false }],
];

/** Brings a new run into a status. */
async function bring(scene: Scene, status: Status): Promise<{ id: string; claim: Claim | undefined }> {
  const { store, add, addWorker, take } = scene;
  const id = await add({ key: "k" }, { model: "wanted" });
  if (status === "queued") return { id, claim: undefined };
  const { claim } = await take(await addWorker());
  if (status === "waiting") await store.wait(claim, { kind: "quota", note: "full", wakeAt: 9e12 }, 1);
  if (status === "succeeded") await store.finish(claim, { ...success, ...products, activeMs: 1 });
  return { id, claim };
}

export function describeSteer(open: StoreFactory): void {
  describe("steering", () => {
    it.each(effects)("of a %s run by %s answers %j and does it once", async (status, verb, effect) => {
      const scene = await setScene(open);
      const { id } = await bring(scene, status);
      expect(await scene.store[verb](id)).toEqual({ id, ...effect });
      const run = await scene.store.getRun(id);
      expect(run?.status).toBe(effect.status);
      expect(await scene.store[verb](id)).toEqual({ id, status: effect.status, changed: false });
      expect(await scene.store.getRun(id)).toEqual(run);
    });

    it.each(["cancel", "pause", "resume", "retry"] as const)("by %s refuses what is no run", async (verb) => {
      const { store } = await setScene(open);
      await expect(store[verb]("nothing")).rejects.toThrow(/expected the id of a run/);
    });

    it("by pause holds a run that waits for a clock", async () => {
      const scene = await setScene(open);
      const { id } = await bring(scene, "waiting");
      await scene.store.pause(id);
      scene.clock.at = 9e12 + 1;
      expect(await scene.store.wakeDue()).toBe(0);
      expect(await scene.store.getRun(id)).toMatchObject({ waitKind: "paused", wakeAt: null });
    });

    it("by resume takes back a pause that its owner has not seen", async () => {
      const scene = await setScene(open);
      const { id } = await bring(scene, "running");
      await scene.store.pause(id);
      expect(await scene.store.resume(id)).toEqual({ id, status: "running", changed: true });
      expect((await scene.store.getRun(id))?.pauseAt).toBeNull();
    });

    it.each(["release", "wait"] as const)("is not forgotten when the owner lets go by %s", async (verb) => {
      const letGo = (store: Scene["store"], claim: Claim) =>
        verb === "release"
          ? store.release(claim, 3)
          : store.wait(claim, { kind: "quota", note: "n", wakeAt: 1 }, 3);
      const scene = await setScene(open);
      const { id: paused, claim: first } = await bring(scene, "running");
      await scene.store.pause(paused);
      if (first) await letGo(scene.store, first);
      expect(await scene.store.getRun(paused)).toMatchObject({
        status: "waiting",
        waitKind: "paused",
        wakeAt: null,
        pauseAt: null,
        activeMs: 3,
      });
      const other = await setScene(open);
      const { id: cancelled, claim: second } = await bring(other, "running");
      await other.store.pause(cancelled);
      await other.store.cancel(cancelled);
      if (second) await letGo(other.store, second);
      expect(await other.store.getRun(cancelled)).toMatchObject({
        status: "cancelled",
        reason: "cancelled",
        activeMs: 3,
        finishedAt: other.clock.at,
      });
    });

    it("by pause does not hold a run that was cancelled and is queued only to be ended", async () => {
      const scene = await setScene(open);
      const { store } = scene;
      const { id, claim } = await bring(scene, "running");
      if (!claim) throw new Error("expected a claim");
      const facts = { prompt: "p", spec: "{}", model: "m", baseCommit: null, baseTree: null };
      await store.begin(claim, facts);
      await store.cancel(id);
      await store.release(claim, 0);
      expect(await store.pause(id)).toEqual({ id, status: "queued", changed: false });
      expect((await store.getRun(id))?.status).toBe("queued");
    });

    it("wakes what is due and nothing else", async () => {
      const scene = await setScene(open);
      const { store, clock, add, addWorker, take } = scene;
      const worker = await addWorker();
      const ids: string[] = [];
      for (const wakeAt of [clock.at + 100, clock.at + 101, null]) {
        ids.push(await add());
        const { claim } = await take(worker);
        await store.wait(claim, { kind: "timer", note: null, wakeAt }, 0);
      }
      expect(await store.wakeDue()).toBe(0);
      clock.at += 100;
      expect(await store.wakeDue()).toBe(1);
      const runs = await Promise.all(ids.map((id) => store.getRun(id)));
      expect(runs.map((run) => run?.status)).toEqual(["queued", "waiting", "waiting"]);
      expect(runs[0]).toMatchObject({ waitKind: null, waitNote: null, wakeAt: null, generation: 2 });
    });

    it("by retry makes a fresh attempt that supersedes the old one", async () => {
      const scene = await setScene(open);
      const { store, addWorker, take } = scene;
      const id = await scene.add({ key: "k", batch: "b", priority: 2 }, { model: "wanted" });
      const { row, claim } = await take(await addWorker());
      const fixed = { model: "old", baseUrl: null, protocol: "native", environment: "local" };
      const spec = JSON.stringify({ ...JSON.parse(row.spec), fixed });
      await store.begin(claim, { prompt: "p", spec, model: "old", baseCommit: null, baseTree: null });
      await store.finish(claim, { ...success, ...products, activeMs: 1 });
      const before = await store.getRun(id);
      const retried = await store.retry(id);
      expect(await store.getRun(retried)).toMatchObject({
        ...{ key: "k", batch: "b", priority: 2, attempt: 2, status: "queued", seq: 0, epoch: 0 },
        ...{ origin: "retry", originRunId: id, model: "wanted", spec: row.spec, promptHash: null },
      });
      expect(await store.getRun(id)).toEqual({ ...before, superseded: 1 });
      expect((await store.findRun("k")).id).toBe(retried);
      expect((await store.loadRuns({})).map((run) => run.id)).toEqual([retried]);
      await expect(store.retry(id)).rejects.toThrow(/superseded/);
    });

    it("by retry with changes differs from the task, whose key still stands for it as it was enqueued", async () => {
      const { store, add } = await setScene(open);
      const id = await add({ key: "k" }, { maxSteps: 3, model: "m" });
      await store.cancel(id);
      const retried = await store.retry(id, { maxSteps: 9, model: "other", protocol: "react" });
      const row = await store.getRun(retried);
      expect(row?.model).toBe("other");
      expect(JSON.parse(row?.spec ?? "")).toMatchObject({
        ...{ maxSteps: 9, model: "other", protocol: "react", prompt: "do it" },
      });
      const [again] = await store.enqueue([newTask({ key: "k" }, { maxSteps: 3, model: "m" })]);
      expect(again).toEqual({ id: retried, key: "k", created: false });
    });

    it("by cancel of a retry that has not begun gives the task back to the run it was to replace", async () => {
      const scene = await setScene(open);
      const { store, addWorker, take } = scene;
      const id = await scene.add({ key: "k" });
      const { claim } = await take(await addWorker());
      await store.finish(claim, { ...failure, ...products, activeMs: 1 });
      const before = await store.getRun(id);
      const retried = await store.retry(id);
      const cancelled = { id: retried, status: "cancelled", changed: true, stands: id };
      expect(await store.cancel(retried)).toEqual(cancelled);
      expect(await store.getRun(id)).toEqual(before);
      expect((await store.findRun("k")).id).toBe(id);
      expect((await store.countRuns()).counts).toEqual([
        { status: "failed", reason: "model_error", count: 1 },
      ]);
      const again = await store.retry(id);
      expect(await store.getRun(again)).toMatchObject({ attempt: 2, superseded: 0 });
    });

    it("by cancel of a retry that has begun leaves it as the newest attempt", async () => {
      const scene = await setScene(open);
      const { store, addWorker, take } = scene;
      const id = await scene.add({ key: "k" });
      const worker = await addWorker();
      const { claim } = await take(worker);
      await store.finish(claim, { ...failure, ...products, activeMs: 1 });
      const retried = await store.retry(id);
      const { row, claim: second } = await take(worker);
      await store.begin(second, {
        prompt: "p",
        spec: row.spec,
        model: "m",
        baseCommit: null,
        baseTree: null,
      });
      await store.release(second, 0);
      expect(await store.cancel(retried)).toEqual({ id: retried, status: "queued", changed: true });
      expect((await store.findRun("k")).id).toBe(retried);
    });

    it("by retry changes priority, tools and prompt of a run, but not what a fork has from its origin", async () => {
      const { store, add } = await setScene(open);
      const id = await add({ key: "k", priority: 1 }, { tools: ["bsh"] });
      await store.cancel(id);
      const retried = await store.retry(id, { priority: 7, tools: ["bash"], systemPrompt: "Be brief." });
      const row = await store.getRun(retried);
      expect(row?.priority).toBe(7);
      expect(JSON.parse(row?.spec ?? "")).toMatchObject({ tools: ["bash"], systemPrompt: "Be brief." });
      const fork = {
        id,
        status: "failed",
        superseded: 0,
        origin: "fork",
        spec: '{"tools":["read_file"]}',
      } as const;
      expect(() => requireRetryable(fork, { maxSteps: 5 })).not.toThrow();
      expect(() => requireRetryable(fork, { model: "m", tools: [], protocol: "react" })).toThrow(
        /keep the model, tools, protocol/,
      );
      const other = { ...fork, origin: null };
      expect(() => requireRetryable(other, { protocol: "react" })).not.toThrow();
      expect(() => requireRetryable(other, { protocol: "bash-block" })).toThrow(/got read_file/);
    });

    it.each(["queued", "running", "waiting"] as const)("by retry refuses a %s run", async (status) => {
      const scene = await setScene(open);
      const { id } = await bring(scene, status);
      await expect(scene.store.retry(id)).rejects.toThrow(`which is ${status}`);
      expect((await scene.store.loadRuns({})).map((run) => run.id)).toEqual([id]);
    });
  });
}
