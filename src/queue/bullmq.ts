import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Job, Worker } from "bullmq";
import { messageOf } from "../errors.ts";
import type { Hint, Queue } from "./queue.ts";
import { openRedis, type RedisConnection } from "./redis.ts";
import { createWaiters, type Waiters } from "./waiters.ts";

export interface BullmqQueueOptions {
  /** `redis://[user:password@]host[:port][/db]`, or `rediss://` for TLS. */
  url: string;
  /** Namespace of the keys. Databases that share one Redis need one each, or they take each other's hints. */
  prefix?: string;
  /** No colon in it. */
  name?: string;
  /** True for a worker; a queue that only publishes opens one connection instead of three, and its `wait` times out. */
  consume: boolean;
  /** Hears of what an operator should know, once: an outage, an unsafe eviction policy, a refused command. */
  onError?: (error: Error) => void;
}

/** What Redis is asked for beside `wait` rejects after this. */
const answerTimeoutMs = 2_000;
/** Hints sent in one round trip. */
const hintsPerTrip = 1_000;
/** `close` gives up on a clean end after this and drops the connections. */
const closeTimeoutMs = 2_000;
/** How long a fetch blocks on the server. It outlives a `wait` that ends earlier, by this at most. */
const fetchBlockSeconds = 2;
const fetchRetryMs = 1_000;
/** A hint is held for milliseconds; one held this long belongs to a dead worker and goes to another. */
const holdMs = 30_000;
const workerSettings = {
  autorun: false,
  concurrency: 1,
  drainDelay: fetchBlockSeconds,
  lockDuration: holdMs,
  stalledInterval: holdMs,
  maxStalledCount: Number.MAX_SAFE_INTEGER,
};

/**
 * The queue over Redis or Valkey. Resolves without waiting for the server: while it is away `publish` rejects
 * within 2 s and `wait` times out; both work again by themselves once it is back, empty or not.
 * Throws ConfigError when the URL is none of Redis.
 */
export async function bullmqQueue(options: BullmqQueueOptions): Promise<Queue> {
  const { url, prefix = "pawl", name = "pawl-runs", consume, onError = () => {} } = options;
  const bullmq = await import("bullmq");
  const waiters = createWaiters();
  const producer = await openRedis({ url, role: "producer", onError });
  const settings = { prefix, skipVersionCheck: true };
  const jobs = new bullmq.Queue(name, { ...settings, connection: producer.client, skipMetasUpdate: true });
  // What the connection meets it reports itself, and commands reject to whoever gave them.
  jobs.on("error", () => {});
  // Its connections meet the same outages, so only the producer's tells of them.
  const consumer = consume ? await openRedis({ url, role: "consumer", onError: () => {} }) : undefined;
  const worker =
    consumer &&
    new bullmq.Worker(name, null, { ...settings, ...workerSettings, connection: consumer.client });
  const fetcher = worker && createFetcher({ worker, waiters, report: producer.report });

  async function publish(hints: Hint[]): Promise<void> {
    for (let start = 0; start < hints.length; start += hintsPerTrip) {
      const trip = hints.slice(start, start + hintsPerTrip);
      await ask(producer, "took no hints", () => jobs.addBulk(trip.map(toJob)));
    }
  }

  /** A key without a time to live, made by whoever comes first. */
  async function getIncarnation(): Promise<string> {
    const key = `${prefix}:incarnation`;
    const incarnation = await ask(producer, "did not say what it holds", async () => {
      await producer.client.set(key, randomUUID(), "NX");
      return producer.client.get(key);
    });
    // Taken away between the two commands, it is another one already.
    return incarnation ?? randomUUID();
  }

  async function loadHints(limit: number): Promise<Hint[]> {
    // New jobs are put at the front of the list.
    const load = () => jobs.getRanges(["wait"], -limit, -1);
    const ids = await ask(producer, "did not say what it holds", load);
    return ids.flatMap(toHint);
  }

  async function removeHints(hints: Hint[]): Promise<void> {
    for (let start = 0; start < hints.length; start += hintsPerTrip) {
      const trip = hints.slice(start, start + hintsPerTrip);
      await ask(producer, "kept its hints", () =>
        Promise.all(trip.map((hint) => jobs.remove(toJobId(hint)))),
      );
    }
  }

  function wait(timeoutMs: number, signal: AbortSignal): Promise<void> {
    const woken = waiters.wait(timeoutMs, signal);
    fetcher?.fetchWhileWaiting();
    return woken;
  }

  async function close(): Promise<void> {
    producer.markClosed();
    waiters.wakeAll();
    await atMost(closeTimeoutMs, Promise.allSettled([fetcher?.close(), jobs.close()]));
    consumer?.disconnect();
    producer.disconnect();
  }

  return { publish, wait, getIncarnation, loadHints, removeHints, close };
}

/** Asks only over a connection that is ready: what waits in a client's memory could grow as long as Redis is away. */
async function ask<T>(producer: RedisConnection, failure: string, command: () => Promise<T>): Promise<T> {
  const bound = new AbortController();
  const timer = setTimeout(() => bound.abort(), answerTimeoutMs);
  try {
    await producer.whenReady(bound.signal);
    return await Promise.race([command(), rejectOnAbort(bound.signal)]);
  } catch (error) {
    // A connection that is up and silent is replaced; until the new one is up, nothing is sent.
    if (bound.signal.aborted) producer.reconnect();
    else producer.report(error);
    const message = `Redis at ${producer.place} ${failure}: ${messageOf(error)}; it is tried again later`;
    throw new Error(message, { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(new Error(`no answer within ${answerTimeoutMs} ms`)));
  });
}

/** The id makes hints of one generation one job; nothing but the hint is in it, and nothing of it is kept. */
function toJob(hint: Hint) {
  const opts = { jobId: toJobId(hint), attempts: 1, removeOnComplete: true, removeOnFail: true };
  return { name: "hint", data: { runId: hint.runId }, opts };
}

function toJobId({ runId, generation }: Hint): string {
  return `r-${runId}-${generation}`;
}

/** None for a job that is not ours. */
function toHint(jobId: string): Hint[] {
  const [, runId, generation] = /^r-(.+)-(\d+)$/.exec(jobId) ?? [];
  return runId === undefined ? [] : [{ runId, generation: Number(generation) }];
}

interface Fetcher {
  fetchWhileWaiting(): void;
  close(): Promise<void>;
}

/** Takes hints from Redis only while somebody waits for one, so that a worker that is full leaves them to others. */
function createFetcher(parts: {
  worker: Worker;
  waiters: Waiters;
  report: (error: unknown) => void;
}): Fetcher {
  const { worker, waiters, report } = parts;
  const token = randomUUID();
  let isFetching = false;
  let isClosed = false;
  worker.on("error", report);
  // Looks after hints that a worker took and did not acknowledge because it died.
  worker.startStalledCheckTimer().catch(report);

  async function loop(): Promise<void> {
    isFetching = true;
    while (waiters.size > 0 && !isClosed) {
      try {
        const job = await worker.getNextJob(token);
        if (job) await deliver(job);
      } catch (error) {
        // A hint that could not be acknowledged comes again or is lost; both are harmless.
        report(error);
        await sleep(fetchRetryMs, undefined, { ref: false });
      }
    }
    isFetching = false;
  }

  /** Acknowledged at once, for what counts is the claim in the database. Nobody waits any more: back to the queue. */
  async function deliver(job: Job): Promise<void> {
    if (waiters.wakeOne()) await job.moveToCompleted(null, token, false);
    else await job.moveToWait(token);
  }

  return {
    fetchWhileWaiting: () => {
      if (!isFetching && !isClosed) void loop();
    },
    close: () => {
      isClosed = true;
      return worker.close(true);
    },
  };
}

function atMost(timeoutMs: number, work: Promise<unknown>): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, timeoutMs);
    void work.finally(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}
