import { describe, expect, it } from "vitest";
import { leaseMs, newTask, products, type StoreFactory, setScene, success } from "./scene.ts";

const dir = "/srv/here";

export function describeClaim(open: StoreFactory): void {
  describe("claiming", () => {
    it("takes the most urgent run first, the oldest among equals", async () => {
      const { add, addWorker, takeAll } = await setScene(open);
      const [low, first, second, high] = [await add(), await add(), await add(), await add({ priority: 5 })];
      expect(await takeAll(await addWorker())).toEqual([high, low, first, second]);
    });

    it("takes batches in turn among equals, also within one millisecond", async () => {
      const { store, addWorker, takeAll } = await setScene(open);
      for (const batch of ["a", "b", "c"]) {
        await store.enqueue(Array.from({ length: 3 }, (_, n) => newTask({ batch, key: `${batch}${n}` })));
      }
      const ids = await takeAll(await addWorker());
      const keys = await Promise.all(ids.map(async (id) => (await store.getRun(id))?.key));
      expect(keys).toEqual(["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]);
    });

    it("takes an urgent run of a batch whose turn it is not", async () => {
      const { add, addWorker, take } = await setScene(open);
      const worker = await addWorker();
      await add({ batch: "a" });
      await add({ batch: "b" });
      expect((await take(worker)).row.id).toBeDefined();
      const urgent = await add({ batch: "a", priority: 1 });
      expect((await take(worker)).row.id).toBe(urgent);
    });

    it("makes the worker the owner under the next epoch", async () => {
      const { store, clock, add, addWorker, take } = await setScene(open);
      const worker = await addWorker();
      const id = await add();
      const { row, claim } = await take(worker);
      expect(row).toMatchObject({ id, status: "running", ownerId: worker, epoch: 1, startedAt: clock.at });
      await store.release(claim, 5);
      clock.at += 1000;
      const again = await take(worker);
      expect(again.row).toMatchObject({ epoch: 2, activeMs: 5, startedAt: clock.at - 1000 });
      expect(await store.claim(worker)).toBeUndefined();
    });

    it("is only for a worker whose lease holds", async () => {
      const { store, clock, add, addWorker } = await setScene(open);
      const id = await add();
      const late = await addWorker();
      const stopped = await addWorker();
      await store.removeWorker(stopped, "stopped");
      expect(await store.claim("nobody")).toBeUndefined();
      expect(await store.claim(stopped)).toBeUndefined();
      clock.at += leaseMs;
      expect(await store.claim(late)).toBeUndefined();
      expect(await store.getRun(id)).toMatchObject({ status: "queued", epoch: 0 });
      expect((await store.claim(await addWorker()))?.id).toBe(id);
    });

    it("of a named run takes that one or none", async () => {
      const { store, add, addWorker } = await setScene(open);
      const worker = await addWorker();
      await add({ priority: 9 });
      const wanted = await add();
      expect((await store.claim(worker, { runId: wanted }))?.id).toBe(wanted);
      expect(await store.claim(worker, { runId: wanted })).toBeUndefined();
      expect(await store.claim(worker, { runId: "nothing" })).toBeUndefined();
    });

    it("gives one run to one of many who ask at once", async () => {
      const { store, add, addWorker } = await setScene(open);
      const workers = await Promise.all([addWorker(), addWorker(), addWorker()]);
      const id = await add();
      const rows = await Promise.all(workers.map((worker) => store.claim(worker)));
      expect(rows.flatMap((row) => row?.id ?? [])).toEqual([id]);
    });

    it("marks the request that a dead owner left open as lost", async () => {
      const { store, add, addWorker, take } = await setScene(open);
      const id = await add();
      const first = await addWorker();
      const { claim } = await take(first);
      await store.plan(claim, { n: 1, step: 1, purpose: "step", model: "m" }, 0);
      await store.removeWorker(first, "dead");
      await take(await addWorker());
      expect((await store.loadModelCalls(id)).map(({ state }) => state)).toEqual(["lost"]);
    });
  });

  describe("runs in one folder", () => {
    it("are worked on one at a time, the next in line when one ends", async () => {
      const { store, add, addWorker, take } = await setScene(open);
      const worker = await addWorker();
      const first = await add({}, { dir });
      const second = await add({}, { dir });
      const urgent = await add({ priority: 1 }, { dir: "/elsewhere" });
      expect((await take(worker)).row.id).toBe(urgent);
      const { row, claim } = await take(worker);
      expect(row.id).toBe(first);
      expect(await store.claim(worker)).toBeUndefined();
      expect(await store.claim(worker, { runId: second })).toBeUndefined();
      await store.finish(claim, { ...success, ...products, activeMs: 1 });
      expect((await take(worker)).row.id).toBe(second);
    });

    it("let an urgent one pass a head that has not begun, but none that has", async () => {
      const { store, add, addWorker, takeAll, take } = await setScene(open);
      const worker = await addWorker();
      const first = await add({}, { dir });
      const urgent = await add({ priority: 5 }, { dir });
      const begun = await take(worker);
      expect(begun.row.id).toBe(urgent);
      await store.release(begun.claim, 0);
      await add({ priority: 9 }, { dir });
      expect(await takeAll(worker)).toEqual([urgent]);
      expect((await store.getRun(first))?.status).toBe("queued");
    });

    it("follow one another by priority when one ends", async () => {
      const { store, add, addWorker, take } = await setScene(open);
      const worker = await addWorker();
      await add({}, { dir });
      const { claim } = await take(worker);
      const low = await add({}, { dir });
      const high = await add({ priority: 2 }, { dir });
      await store.finish(claim, { ...success, ...products, activeMs: 1 });
      const next = await take(worker);
      expect(next.row.id).toBe(high);
      await store.finish(next.claim, { ...success, ...products, activeMs: 1 });
      expect((await take(worker)).row.id).toBe(low);
    });

    it("keep their folder while they wait", async () => {
      const { store, add, addWorker, take } = await setScene(open);
      const worker = await addWorker();
      const first = await add({}, { dir });
      await add({}, { dir });
      const { claim } = await take(worker);
      await store.wait(claim, { kind: "approval", note: "?", wakeAt: null }, 0);
      expect(await store.claim(worker)).toBeUndefined();
      await store.resume(first);
      expect((await take(worker)).row.id).toBe(first);
    });

    it.each(["cancelled in line", "cancelled at its head", "paused in line and resumed later"])(
      "leave no folder without a claimable run when one is %s",
      async (what) => {
        const { store, add, addWorker, take, takeAll } = await setScene(open);
        const worker = await addWorker();
        const [head, behind] = [await add({}, { dir }), await add({}, { dir })];
        if (what === "cancelled in line") {
          await store.cancel(behind);
          expect(await takeAll(worker)).toEqual([head]);
        } else if (what === "cancelled at its head") {
          await store.cancel(head);
          expect(await takeAll(worker)).toEqual([behind]);
        } else {
          await store.pause(behind);
          const { claim } = await take(worker);
          await store.finish(claim, { ...success, ...products, activeMs: 1 });
          await store.resume(behind);
          expect(await takeAll(worker)).toEqual([behind]);
        }
      },
    );

    it("go on after a retry, behind who is there already", async () => {
      const { store, add, addWorker, take, takeAll } = await setScene(open);
      const worker = await addWorker();
      const first = await add({}, { dir });
      const { claim } = await take(worker);
      await store.finish(claim, { ...success, ...products, activeMs: 1 });
      const other = await add({}, { dir });
      const retried = await store.retry(first);
      expect(await takeAll(worker)).toEqual([other]);
      await store.cancel(other);
      expect((await store.getRun(retried))?.status).toBe("queued");
    });
  });
}
