import { createServer } from "node:net";
import path from "node:path";
import { execa } from "execa";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ConfigError } from "../../src/errors.ts";
import { type BullmqQueueOptions, bullmqQueue } from "../../src/queue/bullmq.ts";
import type { Queue } from "../../src/queue/queue.ts";
import { describeWithRedis, type RedisServer, sparePort, startRedis } from "../helpers/redis.ts";
import { waitUntil } from "../helpers/wait-until.ts";

const longMs = 20_000;
const never = new AbortController().signal;
const hint = (number: number) => ({ runId: `run${number}`, generation: 1 });

const open: Queue[] = [];
const errors: string[] = [];

async function openQueue(options: Partial<BullmqQueueOptions> & { url: string }): Promise<Queue> {
  const queue = await bullmqQueue({
    consume: true,
    onError: (error) => void errors.push(error.message),
    ...options,
  });
  open.push(queue);
  return queue;
}

afterEach(async () => {
  await Promise.all(open.splice(0).map((queue) => queue.close()));
  errors.length = 0;
});

/** Waits and says for how long. */
async function timed(wait: Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await wait;
  return performance.now() - startedAt;
}

/** Publishes until it is taken: what a producer does with rows that stay unpublished. */
async function publishAgain(queue: Queue, number: number): Promise<void> {
  await waitUntil(
    () =>
      queue.publish([hint(number)]).then(
        () => true,
        () => false,
      ),
    { timeoutMs: longMs, what: "Redis takes a hint" },
  );
}

/** A queue connects in the background; after this it is connected, so that times are those of a hint alone. */
async function connect(queue: Queue, redis: RedisServer): Promise<void> {
  const wait = queue.wait(longMs, never);
  await queue.publish([{ runId: "first", generation: 1 }]);
  await wait;
  await waitUntil(async () => (await redis.command("LLEN", "pawl:pawl-runs:active")) === 0, {
    timeoutMs: longMs,
    what: "the hint is acknowledged",
  });
}

describeWithRedis("the BullMQ queue", () => {
  let redis: RedisServer;

  beforeEach(async () => {
    redis = await startRedis();
  });
  afterEach(async () => {
    await redis.stop();
  });

  test("a hint reaches a worker that waits within 200 ms", async () => {
    const producer = await openQueue({ url: redis.url, consume: false });
    const worker = await openQueue({ url: redis.url });
    await connect(worker, redis);
    await producer.publish([hint(0)]);
    await worker.wait(longMs, never);
    const wait = timed(worker.wait(longMs, never));
    await producer.publish([hint(1)]);
    expect(await wait).toBeLessThan(200);
  });

  test("a hint published before anybody waits reaches the next to wait", async () => {
    const producer = await openQueue({ url: redis.url, consume: false });
    expect(await timed(producer.publish([hint(1)]))).toBeLessThan(1_000);
    const worker = await openQueue({ url: redis.url });
    expect(await timed(worker.wait(longMs, never))).toBeLessThan(2_000);
  });

  test("a hint wakes one of two workers, two hints wake both", async () => {
    const producer = await openQueue({ url: redis.url, consume: false });
    const workers = [await openQueue({ url: redis.url }), await openQueue({ url: redis.url })];
    let woken = 0;
    const waits = workers.map((worker) => worker.wait(longMs, never).then(() => woken++));
    await producer.publish([hint(1)]);
    await Promise.race(waits);
    await waitUntil(async () => (await redis.command("DBSIZE")) !== 0, { timeoutMs: 1_000, what: "keys" });
    expect(woken).toBe(1);
    await producer.publish([hint(2)]);
    await Promise.all(waits);
    expect(woken).toBe(2);
  });

  test("a hint wakes one of two waiters of one worker", async () => {
    const worker = await openQueue({ url: redis.url });
    const abort = new AbortController();
    let woken = 0;
    const waits = [1, 2].map(() => worker.wait(longMs, abort.signal).then(() => woken++));
    await worker.publish([hint(1)]);
    await Promise.race(waits);
    await waitUntil(async () => (await redis.command("LLEN", "pawl:pawl-runs:active")) === 0, {
      timeoutMs: longMs,
      what: "the hint is acknowledged",
    });
    expect(woken).toBe(1);
    abort.abort();
    await Promise.all(waits);
  });

  test("a worker that is full leaves hints to others", async () => {
    const full = await openQueue({ url: redis.url });
    await connect(full, redis);
    // Its fetch is still under way on the server when its wait has ended.
    await full.wait(50, never);
    const idle = await openQueue({ url: redis.url });
    await full.publish([hint(1)]);
    expect(await timed(idle.wait(longMs, never))).toBeLessThan(3_000);
    await full.publish([hint(2)]);
    expect(await timed(idle.wait(longMs, never))).toBeLessThan(3_000);
  });

  test("a worker that does not wait asks Redis for nothing", async () => {
    const worker = await openQueue({ url: redis.url });
    await worker.wait(100, never);
    await waitUntil(
      async () => String(await redis.command("INFO", "clients")).includes("blocked_clients:0"),
      {
        timeoutMs: 4_000,
        what: "its fetch has ended",
      },
    );
    await worker.publish([hint(1)]);
    expect(await redis.command("LLEN", "pawl:pawl-runs:wait")).toBe(1);
  });

  test("a hint that arrives between two waits ends the second at once", async () => {
    const worker = await openQueue({ url: redis.url });
    await connect(worker, redis);
    await worker.wait(50, never);
    await worker.publish([hint(1)]);
    expect(await timed(worker.wait(longMs, never))).toBeLessThan(200);
  });

  test("hints of one generation are one, and a later publish of the same hint is another", async () => {
    const worker = await openQueue({ url: redis.url });
    await worker.publish([hint(1), hint(1)]);
    await worker.publish([hint(1)]);
    expect(await redis.command("LLEN", "pawl:pawl-runs:wait")).toBe(1);
    await worker.wait(longMs, never);
    await waitUntil(async () => (await redis.command("EXISTS", "pawl:pawl-runs:r-run1-1")) === 0, {
      timeoutMs: longMs,
      what: "the hint is gone",
    });
    const wait = timed(worker.wait(longMs, never));
    await worker.publish([hint(1)]);
    expect(await wait).toBeLessThan(2_000);
  });

  test("ten thousand hints are taken at once and all delivered", async () => {
    const worker = await openQueue({ url: redis.url });
    await worker.publish(Array.from({ length: 10_000 }, (_, number) => hint(number)));
    expect(await redis.command("LLEN", "pawl:pawl-runs:wait")).toBe(10_000);
    for (let count = 0; count < 100; count++) await worker.wait(longMs, never);
    const left = Number(await redis.command("LLEN", "pawl:pawl-runs:wait"));
    expect(left).toBeGreaterThanOrEqual(9_899);
    expect(left).toBeLessThanOrEqual(9_900);
  });

  test("FLUSHALL during a wait loses no later hint", async () => {
    const worker = await openQueue({ url: redis.url });
    await connect(worker, redis);
    const wait = timed(worker.wait(longMs, never));
    await redis.flush();
    await worker.publish([hint(1)]);
    expect(await wait).toBeLessThan(3_000);
    expect(errors).toEqual([]);
  });

  test.each([{ empty: true }, { empty: false }])(
    "after a crash and restart of Redis (%o) the same queue goes on, and the outage is reported once",
    async ({ empty }) => {
      const worker = await openQueue({ url: redis.url });
      await connect(worker, redis);
      const wait = worker.wait(longMs, never);
      await redis.kill();
      const ms = await timed(expect(worker.publish([hint(1)])).rejects.toThrow("took no hints"));
      expect(ms).toBeLessThan(3_000);
      await expect(worker.publish([hint(1)])).rejects.toThrow("ECONNREFUSED");
      await redis.start({ empty });
      await publishAgain(worker, 2);
      await wait;
      const next = timed(worker.wait(longMs, never));
      await worker.publish([hint(3)]);
      expect(await next).toBeLessThan(4_000);
      expect(errors).toEqual([expect.stringContaining("cannot be reached")]);
    },
  );

  test("a server that is frozen makes publish reject in time, is reported, and works when it wakes", async () => {
    const worker = await openQueue({ url: redis.url });
    await connect(worker, redis);
    redis.freeze();
    const ms = await timed(expect(worker.publish([hint(1)])).rejects.toThrow(/no answer within 2000 ms/));
    expect(ms).toBeLessThan(3_000);
    expect(await timed(worker.wait(100, never))).toBeLessThan(1_000);
    await waitUntil(() => errors.length > 0, { timeoutMs: longMs, what: "the outage is reported" });
    redis.thaw();
    const wait = worker.wait(longMs, never);
    await publishAgain(worker, 2);
    await wait;
    expect(errors).toEqual([expect.stringContaining("cannot be reached")]);
  });

  test("a hint whose record was lost holds up no other", async () => {
    const worker = await openQueue({ url: redis.url });
    await connect(worker, redis);
    await redis.command("LPUSH", "pawl:pawl-runs:wait", "r-lost-1");
    await redis.command("ZADD", "pawl:pawl-runs:marker", 0, "0");
    await worker.wait(longMs, never);
    await worker.publish([hint(1)]);
    expect(await timed(worker.wait(longMs, never))).toBeLessThan(500);
    expect(errors).toEqual([]);
  });

  test("an eviction policy that may drop hints is reported", async () => {
    await redis.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
    const queue = await openQueue({ url: redis.url, consume: false });
    await queue.publish([hint(1)]);
    await waitUntil(() => errors.length > 0, { timeoutMs: longMs, what: "a report" });
    expect(errors).toEqual([expect.stringMatching(/maxmemory-policy allkeys-lru.*set it to noeviction/)]);
  });

  test("a Redis without room makes publish reject with its reason", async () => {
    const queue = await openQueue({ url: redis.url });
    await connect(queue, redis);
    await redis.command("CONFIG", "SET", "maxmemory", "1");
    await expect(queue.publish([hint(1)])).rejects.toThrow(/OOM/);
    await redis.command("CONFIG", "SET", "maxmemory", "0");
    const wait = queue.wait(longMs, never);
    await queue.publish([hint(1)]);
    await wait;
  });

  test("a database number and a password in the URL are used, and the password is never shown", async () => {
    await redis.command("CONFIG", "SET", "requirepass", "secret1");
    const url = (password: string) => `redis://:${password}@127.0.0.1:${redis.port}/3`;
    const queue = await openQueue({ url: url("secret1") });
    await queue.publish([hint(1)]);
    await queue.wait(longMs, never);
    expect(errors).toEqual([]);
    const wrong = await openQueue({ url: url("wrong-secret") });
    const failure = await wrong.publish([hint(1)]).catch((error: Error) => error.message);
    expect([...errors, failure].join()).not.toContain("wrong-secret");
    expect(errors).toEqual([expect.stringContaining("WRONGPASS")]);
  });

  test("prefixes keep the hints of two databases apart", async () => {
    const ours = await openQueue({ url: redis.url, prefix: "ours" });
    const theirs = await openQueue({ url: redis.url, prefix: "theirs" });
    await ours.publish([hint(1)]);
    expect(await timed(theirs.wait(300, never))).toBeGreaterThanOrEqual(295);
    expect(await timed(ours.wait(longMs, never))).toBeLessThan(2_000);
  });

  test("a process that used the queue ends by itself, silently, after close", async () => {
    const { stderr, stdout } = await endsByItself(redis.url);
    expect({ stderr, stdout }).toEqual({ stderr: "", stdout: "published\n" });
  });

  test("close is quick while a wait is under way, and wakes it", async () => {
    const queue = await openQueue({ url: redis.url });
    const wait = queue.wait(longMs, never);
    await queue.publish([]);
    expect(await timed(queue.close())).toBeLessThan(1_000);
    await wait;
    await expect(queue.publish([hint(1)])).rejects.toThrow("the queue is closed");
    expect(await timed(queue.wait(60, never))).toBeGreaterThanOrEqual(55);
    expect(errors).toEqual([]);
  });

  test("close is bounded while the server is frozen", async () => {
    const queue = await openQueue({ url: redis.url });
    await connect(queue, redis);
    redis.freeze();
    expect(await timed(queue.close())).toBeLessThan(2_500);
    redis.thaw();
  });

  test("Redis that starts after the queue is found, and its next outage is reported again", async () => {
    await redis.kill();
    const queue = await openQueue({ url: redis.url });
    const wait = queue.wait(longMs, never);
    await waitUntil(() => errors.length > 0, { timeoutMs: longMs, what: "the outage is reported" });
    await redis.start();
    await publishAgain(queue, 1);
    await wait;
    expect(errors).toEqual([expect.stringContaining("cannot be reached")]);
    await redis.kill();
    await waitUntil(() => errors.length > 1, { timeoutMs: longMs, what: "the second outage is reported" });
  });
});

describe("the BullMQ queue without a server", () => {
  test("publish rejects in time, wait takes its time, and the outage is reported once", async () => {
    const port = await sparePort();
    const queue = await openQueue({ url: `redis://127.0.0.1:${port}` });
    const publishMs = await timed(expect(queue.publish([hint(1)])).rejects.toThrow("ECONNREFUSED"));
    expect(publishMs).toBeLessThan(3_000);
    const waitMs = await timed(queue.wait(100, never));
    expect(waitMs).toBeGreaterThanOrEqual(95);
    expect(waitMs).toBeLessThan(1_000);
    expect(errors).toEqual([expect.stringContaining(`Redis at 127.0.0.1:${port} cannot be reached`)]);
    expect(await timed(queue.close())).toBeLessThan(2_500);
  });

  test("a process ends by itself after close although nothing ever answered", async () => {
    const port = await sparePort();
    const { stderr, stdout } = await endsByItself(`redis://127.0.0.1:${port}`);
    expect({ stderr, stdout }).toEqual({ stderr: "", stdout: "not published\n" });
  });

  test("a server that accepts connections and never speaks holds up nothing", async () => {
    const mute = createServer(() => {}).listen(0, "127.0.0.1");
    await waitUntil(() => mute.listening, { timeoutMs: longMs, what: "the server listens" });
    const address = mute.address();
    const port = typeof address === "object" ? address?.port : undefined;
    try {
      const { stderr, stdout } = await endsByItself(`redis://127.0.0.1:${port}`);
      expect({ stderr, stdout }).toEqual({ stderr: "", stdout: "not published\n" });
    } finally {
      mute.close();
    }
  });

  test.each(["localhost:6379", "http://localhost", "redis://", "postgres://u:my/secret@h/db", ""])(
    "a URL that is none of Redis is a ConfigError that shows no password: %s",
    async (url) => {
      const failure = await bullmqQueue({ url, consume: false }).catch((error: unknown) => error);
      expect(failure).toBeInstanceOf(ConfigError);
      expect(String(failure)).toContain("expected the queue as redis://host:port");
      expect(String(failure)).not.toContain("secret");
    },
  );
});

/** Runs publish, wait and close in a process of its own, which must exit without being told to. */
async function endsByItself(url: string): Promise<{ stdout: string; stderr: string }> {
  const source = path.join(import.meta.dirname, "../../src/queue/bullmq.ts");
  const script = `
    import { createJiti } from "jiti";
    const { bullmqQueue } = await createJiti(import.meta.url).import(${JSON.stringify(source)});
    const queue = await bullmqQueue({ url: ${JSON.stringify(url)}, consume: true });
    const outcome = await queue.publish([{ runId: "run1", generation: 1 }]).then(() => "published", () => "not published");
    await queue.wait(200, new AbortController().signal);
    await queue.close();
    console.log(outcome);
  `;
  return execa(process.execPath, ["--input-type=module", "--eval", script], {
    timeout: 12_000,
    stripFinalNewline: false,
  });
}
