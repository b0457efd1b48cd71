import { expect, onTestFinished, test } from "vitest";
import { bullmqQueue } from "../../src/queue/bullmq.ts";
import type { Queue } from "../../src/queue/queue.ts";
import { startProxy, type TcpProxy } from "../helpers/proxy.ts";
import { describeWithRedis, type RedisServer, startRedis, startReplica } from "../helpers/redis.ts";
import { waitUntil } from "../helpers/wait-until.ts";

const longMs = 20_000;
const never = new AbortController().signal;
const hint = (number: number) => ({ runId: `run${number}`, generation: 1 });

interface Pair {
  primary: RedisServer;
  replica: RedisServer;
  proxy: TcpProxy;
  queue: Queue;
  errors: string[];
}

/** A queue that works over a proxy on a primary which a replica follows. */
async function startPair(): Promise<Pair> {
  const primary = await startRedis();
  onTestFinished(() => primary.stop());
  const replica = await startReplica(primary);
  onTestFinished(() => replica.stop());
  const proxy = await startProxy(primary.port);
  const { queue, errors } = await openQueue(proxy.url);
  const wait = queue.wait(longMs, never);
  await queue.publish([hint(0)]);
  await wait;
  return { primary, replica, proxy, queue, errors };
}

async function openQueue(url: string): Promise<{ queue: Queue; errors: string[] }> {
  const errors: string[] = [];
  const queue = await bullmqQueue({
    url,
    consume: true,
    onError: (error) => void errors.push(error.message),
  });
  onTestFinished(() => queue.close());
  return { queue, errors };
}

/** What the reconciler does with a hint that could not be published. */
function publishUntilTaken(queue: Queue, number: number): Promise<void> {
  const isTaken = () =>
    queue.publish([hint(number)]).then(
      () => true,
      () => false,
    );
  return waitUntil(isTaken, { timeoutMs: longMs, what: "the hint is taken" });
}

describeWithRedis("the BullMQ queue when servers and connections change", () => {
  test("a promoted replica goes on where its dead primary stood", async () => {
    const { primary, replica, proxy, queue } = await startPair();
    const before = await queue.getIncarnation();
    await queue.publish([hint(1)]);
    await waitUntil(async () => (await replica.command("LLEN", "pawl:pawl-runs:wait")) === 1, {
      timeoutMs: longMs,
      what: "the replica has the hint",
    });
    await primary.kill();
    await replica.command("REPLICAOF", "NO", "ONE");
    proxy.lead(replica.port);
    await queue.wait(longMs, never);
    await publishUntilTaken(queue, 2);
    await queue.wait(longMs, never);
    expect(await queue.getIncarnation()).toBe(before);
    expect(await replica.command("LLEN", "pawl:pawl-runs:wait")).toBe(0);
  });

  test("a primary that becomes a replica under its connections is left for the new primary", async () => {
    const { primary, replica, proxy, queue } = await startPair();
    await replica.command("REPLICAOF", "NO", "ONE");
    proxy.lead(replica.port);
    await primary.command("REPLICAOF", "127.0.0.1", replica.port);
    await publishUntilTaken(queue, 1);
    expect(await replica.command("EXISTS", "pawl:pawl-runs:r-run1-1")).toBe(1);
    await queue.wait(longMs, never);
  });

  test("an empty server in place of the old one has another incarnation", async () => {
    const { primary, proxy, queue } = await startPair();
    const before = await queue.getIncarnation();
    expect(await (await openQueue(primary.url)).queue.getIncarnation()).toBe(before);
    const other = await startRedis();
    onTestFinished(() => other.stop());
    proxy.lead(other.port);
    await primary.kill();
    const after: string[] = [];
    const isAsked = () =>
      queue.getIncarnation().then(
        (name) => after.push(name) > 0,
        () => false,
      );
    await waitUntil(isAsked, { timeoutMs: longMs, what: "the new server answers" });
    expect(after[0]).toMatch(/^[\w-]{36}$/);
    expect(after[0]).not.toBe(before);
    expect(await queue.getIncarnation()).toBe(after[0]);
    await other.flush();
    expect(await queue.getIncarnation()).not.toBe(after[0]);
  });

  test("connections that are killed while a hint is awaited come back by themselves", async () => {
    const { primary, queue, errors } = await startPair();
    for (const number of [1, 2, 3]) {
      const wait = queue.wait(longMs, never);
      expect(Number(await primary.command("CLIENT", "KILL", "TYPE", "normal"))).toBeGreaterThanOrEqual(2);
      await publishUntilTaken(queue, number);
      await wait;
    }
    expect(errors.every((error) => error.includes("cannot be reached"))).toBe(true);
  });

  test("the hints that have waited longest are listed, and removing some leaves the others", async () => {
    const { primary, queue } = await startPair();
    await queue.publish([1, 2, 3, 4].map(hint));
    expect(await queue.loadHints(3)).toEqual([1, 2, 3].map(hint).toReversed());
    await queue.removeHints([hint(1), hint(3), hint(9)]);
    expect((await queue.loadHints(9)).toReversed()).toEqual([hint(2), hint(4)]);
    expect(await primary.command("EXISTS", "pawl:pawl-runs:r-run1-1")).toBe(0);
    for (const _ of [2, 4]) await queue.wait(longMs, never);
  });

  test("what is asked of a server that is frozen rejects in time", async () => {
    const { primary, queue } = await startPair();
    primary.freeze();
    const startedAt = performance.now();
    const asked = [queue.getIncarnation(), queue.loadHints(9), queue.removeHints([hint(1)])];
    const results = await Promise.allSettled(asked);
    primary.thaw();
    expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    expect(performance.now() - startedAt).toBeLessThan(5_000);
  });
});
