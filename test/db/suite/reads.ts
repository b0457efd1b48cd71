import { describe, expect, it } from "vitest";
import { nothingUsed } from "../../../src/db/counts.ts";
import type { WaitKind } from "../../../src/outcome.ts";
import { newTask, products, type StoreFactory, setScene, success } from "./scene.ts";

export function describeReads(open: StoreFactory): void {
  describe("looking", () => {
    it("finds a run by id, by unique prefix and by key", async () => {
      const { store, clock, add } = await setScene(open);
      const id = await add({ key: "fix-it" });
      clock.at += 10_000_000_000;
      await add();
      for (const reference of [id, id.slice(0, 8), "fix-it"]) {
        expect((await store.findRun(reference)).id).toBe(id);
      }
    });

    it("names the candidates of an ambiguous reference, and what was looked for when there are none", async () => {
      const { store, add } = await setScene(open);
      const ids = [await add({ key: "k", batch: "a" }), await add({ key: "k", batch: "b" })];
      await expect(store.findRun("k")).rejects.toThrow(ids.toReversed().join(", "));
      await expect(store.findRun(ids[0]?.slice(0, 5) ?? "")).rejects.toThrow(ids.toReversed().join(", "));
      for (const reference of ["nothing", "%", "_", "", "K"]) {
        await expect(store.findRun(reference)).rejects.toThrow(/got none/);
      }
    });

    it("lists the newest first, by batch, status and number", async () => {
      const { store, add } = await setScene(open);
      const [a, b, c] = [await add({ batch: "x" }), await add({ batch: "x" }), await add()];
      await store.cancel(b);
      const list = async (filter: Parameters<typeof store.loadRuns>[0]) =>
        (await store.loadRuns(filter)).map(({ id }) => id);
      expect(await list({})).toEqual([c, b, a]);
      expect(await list({ batch: "x" })).toEqual([b, a]);
      expect(await list({ status: "queued" })).toEqual([c, a]);
      expect(await list({ batch: "x", status: "queued" })).toEqual([a]);
      expect(await list({ limit: 1 })).toEqual([c]);
      await expect(list({ batch: "y" })).rejects.toThrow(/name of a batch/);
    });

    it("counts runs by status and reason, superseded ones not", async () => {
      const { store, add, addWorker, take } = await setScene(open);
      const worker = await addWorker();
      const first = await add({ batch: "x" });
      const { claim } = await take(worker);
      await store.finish(claim, { ...success, ...products, activeMs: 1 });
      await store.retry(first);
      await store.cancel(await add());
      const { counts, usage } = await store.countRuns();
      expect(counts.toSorted((a, b) => a.status.localeCompare(b.status))).toEqual([
        { status: "cancelled", reason: "cancelled", count: 1 },
        { status: "queued", reason: null, count: 1 },
      ]);
      expect(usage).toEqual(nothingUsed);
      expect((await store.countRuns("x")).counts).toEqual([{ status: "queued", reason: null, count: 1 }]);
      await expect(store.countRuns("y")).rejects.toThrow(/name of a batch/);
    });

    it("gives messages and events from where a reader stands", async () => {
      const { store, add, addWorker, take } = await setScene(open);
      const id = await add();
      const { claim } = await take(await addWorker());
      for (const seq of [1, 2, 3]) {
        await store.appendMessage(claim, { seq, step: 0, kind: "note", body: "{}", tokens: 1 }, 0);
      }
      expect((await store.loadMessages(id, 1)).map(({ seq }) => seq)).toEqual([2, 3]);
      const [first] = await store.loadEvents({});
      const later = await store.loadEvents({ afterId: first?.id ?? 0 });
      expect(later.map(({ kind }) => kind)).toEqual(["claimed"]);
    });
  });

  describe("a drain", () => {
    it("has work in runs that are queued or running, whoever owns them", async () => {
      const { store, clock, add, addWorker, take } = await setScene(open);
      const hasWork = () => store.hasWork(clock.at + 600_000);
      expect(await hasWork()).toBe(false);
      await add();
      expect(await hasWork()).toBe(true);
      const { claim } = await take(await addWorker());
      expect(await hasWork()).toBe(true);
      await store.finish(claim, { ...success, ...products, activeMs: 1 });
      expect(await hasWork()).toBe(false);
    });

    const waits: [WaitKind, number | null, boolean][] = [
      ["quota", 600_000, true],
      ["timer", 600_000, true],
      ["quota", 600_001, false],
      ["timer", null, false],
      ["approval", 1000, false],
      ["approval", null, false],
      ["input", null, false],
      ["auth", null, false],
      ["dependency", null, false],
      ["paused", null, false],
    ];
    it.each(waits)("for a run that waits for %s, due in %j ms, and one behind it: %s", async (...wait) => {
      const [kind, dueMs, isWork] = wait;
      const { store, clock, add, addWorker, take } = await setScene(open);
      await add({}, { dir: "/here" });
      await add({}, { dir: "/here" });
      const { claim } = await take(await addWorker());
      const wakeAt = dueMs === null ? null : clock.at + dueMs;
      // An owner parks a run as paused only because somebody asked for it.
      if (kind === "paused") await store.pause(claim.runId);
      await store.wait(claim, { kind, note: null, wakeAt }, 0);
      expect(await store.hasWork(clock.at + 600_000)).toBe(isWork);
      await add();
      expect(await store.hasWork(clock.at + 600_000)).toBe(true);
    });
  });

  describe("publishing", () => {
    it("is due for each queued run once a generation", async () => {
      const { store, add, addWorker, take } = await setScene(open);
      const id = await add();
      expect(await store.loadUnpublished()).toEqual([{ runId: id, generation: 1 }]);
      await store.markPublished([{ runId: id, generation: 1 }]);
      expect(await store.loadUnpublished()).toEqual([]);
      const { claim } = await take(await addWorker());
      expect(await store.loadUnpublished()).toEqual([]);
      await store.release(claim, 0);
      expect(await store.loadUnpublished()).toEqual([{ runId: id, generation: 2 }]);
      await store.markPublished([{ runId: id, generation: 2 }]);
      await store.markPublished([{ runId: id, generation: 1 }]);
      expect((await store.getRun(id))?.published).toBe(2);
    });

    it("is due again for a run whose folder became free, though the queue was told of it before", async () => {
      const { store } = await setScene(open);
      const tasks = [newTask({}, { dir: "/here" }), newTask({}, { dir: "/here" })];
      const [head, behind] = (await store.enqueue(tasks)).map(({ id }) => id);
      expect(await store.loadUnpublished()).toEqual([{ runId: head, generation: 1 }]);
      await store.markPublished([head, behind].map((runId) => ({ runId: runId ?? "", generation: 1 })));
      await store.cancel(head ?? "");
      expect(await store.loadUnpublished()).toEqual([{ runId: behind, generation: 2 }]);
    });

    it("comes in pages, so that a full queue is never read at once", async () => {
      const { store } = await setScene(open);
      await store.enqueue(Array.from({ length: 501 }, () => newTask()));
      const page = await store.loadUnpublished();
      expect(page).toHaveLength(500);
      await store.markPublished(page);
      expect(await store.loadUnpublished()).toHaveLength(1);
    });
  });

  describe("before the work", () => {
    it("knows whether an open run, or a certain one, has no model", async () => {
      const { store, add } = await setScene(open);
      expect(await store.hasRunWithoutModel()).toBe(false);
      const named = await add({}, { model: "m" });
      expect(await store.hasRunWithoutModel()).toBe(false);
      const bare = await add();
      expect(await store.hasRunWithoutModel()).toBe(true);
      expect(await store.hasRunWithoutModel(named)).toBe(false);
      expect(await store.hasRunWithoutModel(bare)).toBe(true);
      await store.cancel(bare);
      expect(await store.hasRunWithoutModel()).toBe(false);
    });

    it("knows who has a folder, or is the first in line for it", async () => {
      const { store, add } = await setScene(open);
      expect(await store.getLaneHolder("/here")).toBeUndefined();
      const first = await add({}, { dir: "/here" });
      const second = await add({}, { dir: "/here" });
      const { lane } = (await store.getRun(second)) ?? {};
      expect(await store.getLaneHolder(lane ?? "")).toEqual({ id: first, status: "queued", waitKind: null });
      await store.pause(first);
      expect(await store.getLaneHolder(lane ?? "")).toEqual({
        id: first,
        status: "waiting",
        waitKind: "paused",
      });
      await store.cancel(first);
      expect(await store.getLaneHolder(lane ?? "")).toMatchObject({ id: second });
    });
  });
}
