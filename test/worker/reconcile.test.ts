import path from "node:path";
import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { openStore } from "../../src/db/store.ts";
import { localEnvironment } from "../../src/environment/local.ts";
import { createLogger } from "../../src/log.ts";
import { bullmqQueue } from "../../src/queue/bullmq.ts";
import type { Hint, Queue } from "../../src/queue/queue.ts";
import { reconcile, sweep } from "../../src/worker/reconcile.ts";
import { identity, leaseMs, newTask, type Scene, setScene } from "../db/suite/scene.ts";
import { describeWithRedis, type RedisServer, startRedis } from "../helpers/redis.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { waitUntil } from "../helpers/wait-until.ts";

const betweenPassesMs = 30_000;

interface Net extends Scene {
  /** A second connection, for what no verb does. */
  sqlite: Database.Database;
  log: string[];
  /** What the queue was told of, in order, unless it is another one. */
  told: Hint[];
  /** Does the next pass, half a minute later, as a worker that just began. */
  pass(queue?: Queue): Promise<void>;
  sweep(): Promise<number>;
  /** Every change of this run's row is refused until the function that it returns is called. */
  damage(runId: string): () => void;
  statusOf(ids: string[]): Promise<(string | undefined)[]>;
}

async function setNet(): Promise<Net> {
  const file = path.join(temporaryFolder(), "pawl.db");
  const scene = await setScene(({ now }) => openStore({ file, now }));
  const { store, clock } = scene;
  const sqlite = new Database(file);
  onTestFinished(() => void sqlite.close());
  const log: string[] = [];
  const told: Hint[] = [];
  const logger = createLogger("info", (line) => void log.push(line.replace(/^\S+ /, "")));
  const signal = new AbortController().signal;
  const partsOf = async (queue: Queue) => {
    const ownId = await store.registerWorker(identity, { version: "1", leaseMs });
    const folders = { repos: "", workspaces: "", dataDir: path.dirname(file), database: file };
    const self = { ...identity, host: "elsewhere" };
    return { store, queue, logger, signal, ownId, self, paths: folders, environment: localEnvironment() };
  };
  return {
    ...scene,
    sqlite,
    log,
    told,
    async pass(queue = recordingQueue(told)) {
      clock.at += betweenPassesMs;
      await reconcile(await partsOf(queue));
    },
    sweep: async () => sweep(await partsOf(recordingQueue(told))),
    damage(runId) {
      sqlite.exec(`CREATE TRIGGER damaged BEFORE UPDATE ON runs WHEN OLD.id = '${runId}'
        BEGIN SELECT RAISE(ABORT, 'this row is damaged'); END`);
      return () => void sqlite.exec("DROP TRIGGER damaged");
    },
    statusOf: async (ids) => (await Promise.all(ids.map((id) => store.getRun(id)))).map((run) => run?.status),
  };
}

function recordingQueue(told: Hint[], changes: Partial<Queue> = {}): Queue {
  return {
    publish: async (hints) => void told.push(...hints),
    wait: async () => {},
    getIncarnation: async () => "one",
    loadHints: async () => [],
    removeHints: async () => {},
    close: async () => {},
    ...changes,
  };
}

const unavailable: Partial<Queue> = {
  publish: () => Promise.reject(new Error("no answer")),
  getIncarnation: () => Promise.reject(new Error("no answer")),
};

/** Three runs of one worker, which the test then lets expire or stops. */
async function ownThree({ add, addWorker, take }: Scene): Promise<{ worker: string; ids: string[] }> {
  const ids = [await add(), await add(), await add()];
  const worker = await addWorker();
  for (const _ of ids) await take(worker);
  return { worker, ids };
}

async function timeThree({ store, clock, add, addWorker, take }: Scene): Promise<string[]> {
  const ids: string[] = [];
  const worker = await addWorker();
  for (let count = 0; count < 3; count += 1) {
    ids.push(await add());
    const { claim } = await take(worker);
    await store.wait(claim, { kind: "timer", note: null, wakeAt: clock.at + 1000 }, 0);
  }
  return ids;
}

test("a pass is done by one worker, at most once in half a minute, whatever the clock does", async () => {
  const net = await setNet();
  const { clock, addWorker, sqlite } = net;
  const stores = [net.store, net.store, net.store];
  const workers = [await addWorker(), await addWorker(), await addWorker()];
  const claimAll = () =>
    Promise.all(stores.map((store, index) => store.claimReconcile(workers[index] ?? "", betweenPassesMs)));
  const counts: number[] = [];
  for (const moveMs of [0, betweenPassesMs - 1, 1, -3_600_000]) {
    clock.at += moveMs;
    counts.push((await claimAll()).filter(Boolean).length);
  }
  expect(counts).toEqual([1, 0, 1, 1]);
  const row = sqlite.prepare("SELECT value FROM meta WHERE key = 'reconciled'").get() as { value: string };
  expect(row.value).toMatch(new RegExp(`^${clock.at} (${workers.join("|")})$`));
});

test("two processes that ask for a pass at once do not both get it", async () => {
  const file = path.join(temporaryFolder(), "pawl.db");
  const stores = [await openStore({ file }), await openStore({ file })];
  onTestFinished(async () => void (await Promise.all(stores.map((store) => store.close()))));
  const claims = await Promise.all(stores.map((store, index) => store.claimReconcile(`w${index}`, 60_000)));
  expect(claims.toSorted()).toEqual([false, true]);
});

test("a run that cannot be taken over keeps no other from it, and is taken over once it can be", async () => {
  const net = await setNet();
  const { clock, log } = net;
  const { ids } = await ownThree(net);
  const mend = net.damage(ids[0] ?? "");
  clock.at += leaseMs;
  expect(await net.sweep()).toBe(2);
  expect(await net.statusOf(ids)).toEqual(["running", "queued", "queued"]);
  await net.pass();
  expect(log.filter((line) => line.startsWith("reconcile.failed"))).toEqual([
    `reconcile.failed part=owners row=${ids[0]} error="this row is damaged"`,
  ]);
  expect(net.told.map(({ runId }) => runId)).toEqual(ids.slice(1));
  mend();
  expect(await net.sweep()).toBe(1);
  expect(await net.store.getRun(ids[0] ?? "")).toMatchObject({ status: "queued", strikes: 1, generation: 2 });
});

test("the runs of a worker whose remover was killed between the two are taken over", async () => {
  const net = await setNet();
  const { worker, ids } = await ownThree(net);
  net.sqlite.prepare("UPDATE workers SET stopped_at = 1, detail = 'stopped' WHERE id = ?").run(worker);
  expect(await net.sweep()).toBe(3);
  expect(await net.statusOf(ids)).toEqual(["queued", "queued", "queued"]);
  expect((await net.store.getRun(ids[0] ?? ""))?.strikes, "it stopped in order").toBe(0);
  expect(await net.sweep()).toBe(0);
});

test("a due run that cannot be woken keeps no other from it", async () => {
  const net = await setNet();
  const ids = await timeThree(net);
  const mend = net.damage(ids[0] ?? "");
  await net.pass();
  expect(await net.statusOf(ids)).toEqual(["waiting", "queued", "queued"]);
  expect(net.log).toContainEqual(expect.stringContaining(`part=timers row=${ids[0]}`));
  mend();
  await net.pass();
  expect(await net.statusOf(ids)).toEqual(["queued", "queued", "queued"]);
});

test("a run that was asked to end and has no owner ends", async () => {
  const net = await setNet();
  const { store, clock, sqlite } = net;
  const { ids } = await ownThree(net);
  await store.cancel(ids[0] ?? "");
  clock.at += leaseMs;
  const waiting = await timeThree(net);
  sqlite.prepare("UPDATE runs SET cancel_at = 1 WHERE id IN (?, ?)").run(waiting[0], waiting[1]);
  sqlite.prepare("UPDATE runs SET wake_at = NULL").run();
  const mend = net.damage(waiting[0] ?? "");
  await net.pass();
  expect(await net.statusOf([...ids, ...waiting])).toEqual([
    ...["cancelled", "queued", "queued"],
    ...["waiting", "cancelled", "waiting"],
  ]);
  mend();
  await net.pass();
  expect(await net.statusOf(waiting)).toEqual(["cancelled", "cancelled", "waiting"]);
});

test("a hint that cannot be marked keeps no other from it, on its page and on the next", async () => {
  const net = await setNet();
  const { store } = net;
  const added = await store.enqueue(Array.from({ length: 700 }, () => newTask()));
  const bad = added[10]?.id ?? "";
  net.damage(bad);
  await net.pass();
  expect(new Set(net.told.map(({ runId }) => runId))).toEqual(new Set(added.map(({ id }) => id)));
  expect(await store.loadUnpublished()).toEqual([{ runId: bad, generation: 1 }]);
});

test("a queue that is away keeps nothing else from being done, and is told later", async () => {
  const net = await setNet();
  const { store, clock } = net;
  const { ids } = await ownThree(net);
  clock.at += leaseMs;
  await net.pass(recordingQueue(net.told, unavailable));
  expect(await net.statusOf(ids)).toEqual(["queued", "queued", "queued"]);
  expect(await store.loadUnpublished()).toHaveLength(3);
  await net.pass();
  expect(net.told.map(({ runId }) => runId)).toEqual(ids);
});

test("a queue that lost everything is told again only when all of it could be said", async () => {
  const net = await setNet();
  await net.add();
  await net.pass();
  const another = { getIncarnation: async () => "two" };
  await net.pass(recordingQueue([], { ...unavailable, ...another }));
  expect(await net.store.getIncarnation()).toBe("one");
  net.told.length = 0;
  await net.pass(recordingQueue(net.told, another));
  await net.pass(recordingQueue(net.told, another));
  expect(net.told).toHaveLength(1);
  expect(await net.store.getIncarnation()).toBe("two");
  expect(net.log.filter((line) => line.startsWith("queue.lost"))).toHaveLength(2);
});

describeWithRedis("the reconciler over Redis", () => {
  async function startOwn(): Promise<RedisServer> {
    const redis = await startRedis();
    onTestFinished(() => redis.stop());
    return redis;
  }

  async function openQueue(url: string): Promise<Queue> {
    const queue = await bullmqQueue({ url, consume: false });
    onTestFinished(() => queue.close());
    return queue;
  }

  /** Ids of the jobs that wait, sorted. */
  const jobsIn = async (redis: RedisServer) =>
    ((await redis.command("LRANGE", "pawl:pawl-runs:wait", 0, -1)) as string[]).toSorted();

  test("what was flushed is published again, for the runs that can be claimed and no others", async () => {
    const redis = await startOwn();
    const queue = await openQueue(redis.url);
    const net = await setNet();
    const { store, add, addWorker, take } = net;
    await add();
    const { claim } = await take(await addWorker(leaseMs * 100));
    const paused = await add();
    await store.pause(paused);
    const queued = [await add(), await add({}, { dir: "/here" })];
    const behind = await add({}, { dir: "/here" });
    await net.pass(queue);
    const jobs = queued.map((id) => `r-${id}-1`).toSorted();
    expect(await jobsIn(redis)).toEqual(jobs);
    await redis.flush();
    await net.pass(queue);
    expect(await jobsIn(redis)).toEqual(jobs);
    expect(net.log.filter((line) => line === "queue.lost")).toHaveLength(1);
    expect(await net.statusOf([claim.runId, paused, behind])).toEqual(["running", "waiting", "queued"]);
    expect((await store.getRun(claim.runId))?.epoch).toBe(1);
  });

  test("a Redis that the database does not know is told of everything", async () => {
    const net = await setNet();
    const id = await net.add();
    const [first, second] = [await startOwn(), await startOwn()];
    await net.pass(await openQueue(first.url));
    await net.pass(await openQueue(second.url));
    expect(await jobsIn(second)).toEqual([`r-${id}-1`]);
  });

  test("a Redis that keeps what it was told is told nothing twice", async () => {
    const redis = await startOwn();
    const queue = await openQueue(redis.url);
    const net = await setNet();
    await net.add();
    await net.pass(queue);
    const taken = await redis.command("RPOP", "pawl:pawl-runs:wait");
    await redis.command("DEL", `pawl:pawl-runs:${taken}`);
    await net.pass(queue);
    expect(await jobsIn(redis)).toEqual([]);
  });

  test("jobs of runs that ended, are gone, are owned or have a newer generation are removed, no others", async () => {
    const redis = await startOwn();
    const queue = await openQueue(redis.url);
    const net = await setNet();
    const { store, add, addWorker, take } = net;
    const worker = await addWorker(leaseMs * 100);
    const released = await add();
    await store.release((await take(worker)).claim, 0);
    const ended = await add();
    await store.cancel(ended);
    const owned = await add({ priority: 1 });
    expect((await take(worker)).claim.runId).toBe(owned);
    await queue.publish([
      { runId: released, generation: 1 },
      { runId: ended, generation: 1 },
      { runId: owned, generation: 1 },
      { runId: "gone", generation: 1 },
    ]);
    await redis.command("LPUSH", "pawl:pawl-runs:wait", "not-ours", "r-lost-1");
    await net.pass(queue);
    expect(await jobsIn(redis)).toEqual(["not-ours", `r-${released}-2`]);
    await waitUntil(async () => (await redis.command("EXISTS", "pawl:pawl-runs:r-gone-1")) === 0, {
      timeoutMs: 10_000,
      what: "the record of the job is gone too",
    });
  });
});
