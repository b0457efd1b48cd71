import { describe, expect, it } from "vitest";
import { firstStep, identity, leaseMs, type StoreFactory, setScene } from "./scene.ts";

export function describeWorkers(open: StoreFactory): void {
  describe("workers", () => {
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

    it("leave strikes on runs that made no step, and none on those that did", async () => {
      const { store, add, addWorker, take } = await setScene(open);
      const id = await add();
      const worker = await addWorker();
      await take(worker);
      await store.removeWorker(worker, "dead");
      expect(await store.getRun(id)).toMatchObject({ status: "queued", strikes: 1, generation: 2 });
      const next = await addWorker();
      await firstStep(store, (await take(next)).claim);
      await store.removeWorker(next, "dead");
      expect((await store.getRun(id))?.strikes).toBe(0);
    });

    it.each([
      ["stopped", 0],
      ["rebooted", 0],
      ["paused", 0],
      ["lease_expired", 1],
      ["dead", 1],
    ] as const)("leave, when they are removed as %s, %i strikes", async (why, strikes) => {
      const { store, clock, add, addWorker, take } = await setScene(open);
      const id = await add();
      const worker = await addWorker();
      await take(worker);
      clock.at += leaseMs;
      await store.removeWorker(worker, why);
      expect(await store.getRun(id)).toMatchObject({ status: "queued", strikes });
    });

    it("leave a strike when they were stuck, whoever finds it", async () => {
      const { store, clock, add, take } = await setScene(open);
      const id = await add();
      for (const [index, why] of (["stopped", "paused"] as const).entries()) {
        const worker = await store.registerWorker(identity, { version: "1", leaseMs });
        // As the thread of its lease does.
        await store.noteWorker(worker, "stuck");
        await take(worker);
        clock.at += leaseMs;
        await store.removeWorker(worker, why);
        expect(await store.getRun(id)).toMatchObject({ status: "queued", strikes: index + 1 });
      }
    });

    it("leave no strike on a run whose command lives on", async () => {
      const { store, add, addWorker, take } = await setScene(open);
      const [busy, idle] = [await add(), await add()];
      const worker = await addWorker();
      await take(worker);
      await take(worker);
      await store.removeWorker(worker, "dead", async (id) => id === busy);
      expect(await store.getRun(busy)).toMatchObject({ status: "queued", strikes: 0 });
      expect(await store.getRun(idle)).toMatchObject({ status: "queued", strikes: 1 });
    });

    it("neither clear strikes by giving runs back, nor add any; a step clears them", async () => {
      const { store, add, addWorker, take } = await setScene(open);
      const id = await add();
      const doomed = await addWorker();
      await take(doomed);
      await store.removeWorker(doomed, "dead");
      const worker = await addWorker();
      await store.release((await take(worker)).claim, 0);
      expect((await store.getRun(id))?.strikes).toBe(1);
      const { claim } = await take(worker);
      await firstStep(store, claim);
      await store.release(claim, 0);
      expect((await store.getRun(id))?.strikes).toBe(0);
    });

    it("get a run that two died with only when they have no other, after all others; the third death ends it", async () => {
      const { store, clock, add, addWorker, take } = await setScene(open);
      const suspect = await add({}, { dir: "/here" });
      for (let deaths = 0; deaths < 2; deaths += 1) {
        const worker = await addWorker();
        await take(worker);
        await store.removeWorker(worker, "dead");
      }
      const behind = await add({}, { dir: "/here" });
      const other = await add();
      const worker = await addWorker();
      expect((await store.claim(worker, { isAlone: true }))?.id, "others go first").toBe(other);
      expect(await store.claim(worker), "not beside another run").toBeUndefined();
      expect(await store.hasWork(clock.at)).toBe(true);
      const lonely = await addWorker();
      expect((await store.claim(lonely, { isAlone: true }))?.id).toBe(suspect);
      await store.removeWorker(lonely, "lease_expired");
      expect((await store.getRun(suspect))?.status, "its lease holds").toBe("running");
      await store.removeWorker(lonely, "dead");
      expect(await store.getRun(suspect)).toMatchObject({
        status: "failed",
        reason: "crash_loop",
        strikes: 3,
      });
      expect((await store.claim(worker))?.id, "its folder is free").toBe(behind);
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
