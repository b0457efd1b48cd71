import { describe, expect, it } from "vitest";
import { newTask, type StoreFactory, setScene } from "./scene.ts";

export function describeEnqueue(open: StoreFactory): void {
  describe("enqueueing", () => {
    it("adds a run that is queued, with its task as given", async () => {
      const { store, clock } = await setScene(open);
      const task = newTask({ key: "k", batch: "b", priority: 3 }, { prompt: "p", repo: "/r", model: "m" });
      const [result] = await store.enqueue([task]);
      expect(result).toEqual({ id: expect.any(String), key: "k", created: true });
      const run = await store.getRun(result?.id ?? "");
      expect(run).toMatchObject({
        key: "k",
        batch: "b",
        priority: 3,
        repo: "/r",
        model: "m",
        status: "queued",
        attempt: 1,
        epoch: 0,
        createdAt: clock.at,
      });
      expect(JSON.parse(run?.spec ?? "")).toEqual(task.spec);
    });

    it("gives the same run for the same key of a batch, and another one in another batch", async () => {
      const { store } = await setScene(open);
      const [first] = await store.enqueue([newTask({ key: "k", batch: "one" })]);
      const [again] = await store.enqueue([newTask({ key: "k", batch: "one" })]);
      const [other] = await store.enqueue([newTask({ key: "k", batch: "two" })]);
      const [none] = await store.enqueue([newTask({ key: "k" })]);
      expect(again).toEqual({ id: first?.id, key: "k", created: false });
      expect(other?.created).toBe(true);
      expect(none?.created).toBe(true);
      expect(new Set([first?.id, other?.id, none?.id]).size).toBe(3);
    });

    it("says that the task of a known key differs, and leaves the run as it is", async () => {
      const { store } = await setScene(open);
      const [first] = await store.enqueue([newTask({ key: "k" }, { prompt: "old" })]);
      const before = await store.getRun(first?.id ?? "");
      const [again] = await store.enqueue([newTask({ key: "k", priority: 9 }, { prompt: "new" })]);
      expect(again).toEqual({ id: first?.id, key: "k", created: false, changed: true });
      expect(await store.getRun(first?.id ?? "")).toEqual(before);
    });

    it("does not call a task changed because a run of it has begun or ended", async () => {
      const { store, addWorker, take } = await setScene(open);
      await store.enqueue([newTask({ key: "k" })]);
      const { claim, row } = await take(await addWorker());
      const spec = JSON.stringify({ ...JSON.parse(row.spec), fixed: { model: "m" } });
      await store.begin(claim, { prompt: "{}", spec, model: "m", baseCommit: null, baseTree: null });
      expect(await store.enqueue([newTask({ key: "k" })])).toEqual([
        { id: row.id, key: "k", created: false },
      ]);
    });

    it("makes a new run every time for a task without key", async () => {
      const { store } = await setScene(open);
      const results = await store.enqueue([newTask(), newTask()]);
      expect(results.map(({ created }) => created)).toEqual([true, true]);
      expect(results[0]?.id).not.toBe(results[1]?.id);
    });

    it("adds all tasks or none", async () => {
      const { store } = await setScene(open);
      // A circular value cannot be stored: the third task fails after two were inserted.
      const broken = newTask({ key: "c" });
      Object.assign(broken.spec, { tools: broken });
      await expect(
        store.enqueue([newTask({ key: "a" }), newTask({ key: "b", batch: "new" }), broken]),
      ).rejects.toThrow(/circular/);
      expect(await store.loadRuns({})).toEqual([]);
      await expect(store.loadRuns({ batch: "new" })).rejects.toThrow(/name of a batch/);
    });

    it("adds 10,000 tasks in one commit, in the order given", async () => {
      const { store, addWorker, take } = await setScene(open);
      const tasks = Array.from({ length: 10_000 }, (_, index) => newTask({ key: `k${index}`, batch: "b" }));
      const results = await store.enqueue(tasks);
      expect(results.filter(({ created }) => created)).toHaveLength(10_000);
      const ids = results.map(({ id }) => id);
      expect(ids.toSorted()).toEqual(ids);
      const again = await store.enqueue(tasks);
      expect(again.some(({ created, changed }) => created || changed)).toBe(false);
      expect((await take(await addWorker())).row.key).toBe("k0");
    });

    it("records one event a batch, with the run where it is one", async () => {
      const { store } = await setScene(open);
      await store.enqueue([
        newTask({ key: "a", batch: "one" }),
        newTask({ key: "b", batch: "one" }),
        newTask({ key: "c", batch: "two" }),
      ]);
      const events = await store.loadEvents({});
      const run = await store.findRun("c");
      expect(events.map(({ kind, runId, data }) => [kind, runId, JSON.parse(data ?? "")])).toEqual([
        ["enqueued", null, { created: 2, existing: 0 }],
        ["enqueued", run.id, { created: 1, existing: 0 }],
      ]);
    });
  });
}
