import { describe, expect, it } from "vitest";
import { firstStep, leaseMs, type StoreFactory, setScene } from "./scene.ts";

export function describeWorkers(open: StoreFactory): void {
  describe("workers", () => {
    it("hold a lease for as long as they renew it", async () => {
      const { store, clock, addWorker } = await setScene(open);
      const worker = await addWorker();
      clock.at += leaseMs - 1;
      expect(await store.renewLease(worker, leaseMs)).toBe(true);
      clock.at += leaseMs - 1;
      expect(await store.renewLease(worker, leaseMs)).toBe(true);
      clock.at += leaseMs;
      expect(await store.renewLease(worker, leaseMs)).toBe(false);
    });

    it("cannot renew once they were removed", async () => {
      const { store, addWorker } = await setScene(open);
      const worker = await addWorker();
      await store.removeWorker(worker, "dead");
      expect(await store.renewLease(worker, leaseMs)).toBe(false);
      expect(await store.loadWorkers()).toEqual([]);
      expect(await store.removeWorker(worker, "dead")).toBe(0);
    });

    it("are not removed as expired while their lease holds", async () => {
      const { store, clock, add, addWorker, take } = await setScene(open);
      const worker = await addWorker();
      const id = await add();
      await take(worker);
      expect(await store.removeWorker(worker, "lease_expired")).toBe(0);
      expect((await store.getRun(id))?.status).toBe("running");
      clock.at += leaseMs;
      expect(await store.removeWorker(worker, "lease_expired")).toBe(1);
      expect(await store.getRun(id)).toMatchObject({ status: "queued", ownerId: null });
    });

    it("leave strikes on runs that made no progress, and none on those that did", async () => {
      const { store, add, addWorker, take } = await setScene(open);
      const id = await add();
      for (const strikes of [1, 2]) {
        const worker = await addWorker();
        await take(worker);
        await store.removeWorker(worker, "dead");
        expect(await store.getRun(id)).toMatchObject({ status: "queued", strikes, generation: 1 + strikes });
      }
      const worker = await addWorker();
      await firstStep(store, (await take(worker)).claim);
      await store.removeWorker(worker, "dead");
      expect((await store.getRun(id))?.strikes).toBe(0);
    });

    it("leave the runs of others alone", async () => {
      const { store, add, addWorker, take } = await setScene(open);
      const [one, other] = [await addWorker(), await addWorker()];
      await add();
      await add();
      const kept = await take(one);
      await take(other);
      expect(await store.removeWorker(other, "dead")).toBe(1);
      expect(await store.getRun(kept.row.id)).toMatchObject({ status: "running", ownerId: one });
      expect((await store.countOwned()).map(({ id, running }) => [id, running])).toEqual([[one, 1]]);
    });

    it("leave runs that were asked to end as cancelled, and free their folder", async () => {
      const { store, clock, add, addWorker, take } = await setScene(open);
      const worker = await addWorker();
      const id = await add({}, { dir: "/here" });
      const next = await add({}, { dir: "/here" });
      await take(worker);
      await store.cancel(id);
      await store.removeWorker(worker, "dead");
      expect(await store.getRun(id)).toMatchObject({
        status: "cancelled",
        reason: "cancelled",
        finishedAt: clock.at,
      });
      expect((await take(await addWorker())).row.id).toBe(next);
    });

    it("leave runs that were asked to pause as paused", async () => {
      const { store, add, addWorker, take } = await setScene(open);
      const worker = await addWorker();
      const id = await add();
      await take(worker);
      await store.pause(id);
      await store.removeWorker(worker, "dead");
      expect(await store.getRun(id)).toMatchObject({
        status: "waiting",
        waitKind: "paused",
        pauseAt: null,
      });
      expect(await store.resume(id)).toMatchObject({ status: "queued", changed: true });
    });

    it("leave a trace of what happened to their runs", async () => {
      const { store, add, addWorker, take } = await setScene(open);
      const worker = await addWorker();
      const id = await add();
      await take(worker);
      await store.removeWorker(worker, "dead");
      const events = await store.loadEvents({ runId: id });
      expect(events.map(({ kind, workerId }) => [kind, workerId])).toEqual([
        ["enqueued", null],
        ["claimed", worker],
        ["owner_lost", worker],
      ]);
    });
  });
}
