import { writeFileSync } from "node:fs";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { expectSoundLogs } from "../helpers/invariants.ts";
import { runPawl } from "../helpers/pawl-process.ts";
import { startProxy } from "../helpers/proxy.ts";
import {
  describeWithRedis,
  type RedisServer,
  sparePort,
  startRedis,
  startReplica,
} from "../helpers/redis.ts";
import { createScenario, markOf, type Scenario, type Story } from "../helpers/scenario.ts";
import { waitUntil } from "../helpers/wait-until.ts";

const story: Story = (_key, done, run) =>
  done < 3 ? { toolCalls: [run(done + 1, "sleep 0.4")] } : { content: "all done" };

async function startOwnRedis(): Promise<RedisServer> {
  const redis = await startRedis();
  onTestFinished(() => redis.stop());
  return redis;
}

async function redisScenario(url: string): Promise<Scenario> {
  return createScenario(story, { env: { PAWL_QUEUE: url } });
}

function expectEachOnce(scenario: Scenario, keys: string[]): void {
  const expected = keys.flatMap((key) => [1, 2, 3].map((n) => markOf(key, n)));
  expect(scenario.effects().toSorted()).toEqual(expected.toSorted());
  const database = scenario.database();
  expect(database.prepare("SELECT DISTINCT status FROM runs").all()).toEqual([{ status: "succeeded" }]);
  expectSoundLogs(database);
}

/** No healthy run was taken away from its worker. */
function expectUndisturbed(scenario: Scenario): void {
  const epochs = scenario.database().prepare("SELECT DISTINCT epoch FROM runs").all();
  expect(epochs).toEqual([{ epoch: 1 }]);
}

function works(scenario: Scenario, effects: number): Promise<void> {
  const isDone = () => scenario.effects().length >= effects;
  return waitUntil(isDone, { timeoutMs: 30_000, what: `${effects} commands have run` });
}

const keys = ["a", "b", "c", "d", "e", "f", "g", "h"];
const few = keys.slice(0, 4);

describeWithRedis("delivery by Redis", () => {
  test("two workers share a batch, and a killed one's runs go on within seconds", async () => {
    const redis = await startOwnRedis();
    const scenario = await redisScenario(redis.url);
    await scenario.enqueue(keys);
    const doomed = scenario.worker({ args: ["--drain", "--concurrency", "3"] });
    const other = scenario.worker({ args: ["--drain", "--concurrency", "3"] });
    await waitUntil(() => scenario.effects().length >= 6, { timeoutMs: 20_000, what: "both work" });
    doomed.child.kill("SIGKILL");
    const killedAt = Date.now();
    await doomed.ended();
    expect((await other.ended()).code).toBe(0);
    // The first: the others wait for a free place.
    const claim = scenario
      .database()
      .prepare("SELECT min(at) AS at FROM events WHERE kind = 'claimed' AND epoch = 2");
    expect((claim.get() as { at: number }).at - killedAt).toBeLessThan(3000);
    const meta = scenario.database().prepare("SELECT key FROM meta ORDER BY key").pluck();
    expect(meta.all(), "a pass of the reconciler was done").toEqual(["queue_incarnation", "reconciled"]);
    expectEachOnce(scenario, keys);
  });

  test("a killed worker is noticed, and its runs are claimed, within seconds by one that only waits for hints", async () => {
    const redis = await startOwnRedis();
    const untilTold = "until [ -e ../../../go ]; do sleep 0.1; done";
    const scenario = await createScenario(
      (_key, done, run) => (done === 0 ? { toolCalls: [run(1, untilTold)] } : { content: "all done" }),
      { env: { PAWL_QUEUE: redis.url } },
    );
    await scenario.enqueue(["a", "b"]);
    const doomed = scenario.worker({ args: ["--concurrency", "2"] });
    await waitUntil(() => scenario.effects().length === 2, { timeoutMs: 20_000, what: "both run" });
    const idle = scenario.worker();
    await idle.says("takes up to");
    const database = scenario.database();
    const isDead = database.prepare("SELECT 1 FROM workers WHERE detail = 'dead'");
    const claims = database.prepare("SELECT 1 FROM events WHERE kind = 'claimed' AND epoch = 2");
    doomed.child.kill("SIGKILL");
    await doomed.ended();
    // A second by itself; the rest is for a busy machine.
    await waitUntil(() => isDead.get() !== undefined, { timeoutMs: 2000, what: "the death is noticed" });
    await waitUntil(() => claims.all().length === 2, { timeoutMs: 1500, what: "its runs are claimed" });
    writeFileSync(path.join(scenario.folder, "go"), "");
    expect((await idle.ended()).code).toBe(0);
    expect(scenario.effects().toSorted()).toEqual(["a", "b"].map((key) => markOf(key, 1)));
    expectSoundLogs(database);
  });

  test("FLUSHALL and a restart with nothing in it lose no run and abort none", async () => {
    const redis = await startOwnRedis();
    const scenario = await redisScenario(redis.url);
    await scenario.enqueue(keys);
    const worker = scenario.worker({ args: ["--drain", "--concurrency", "2"] });
    await waitUntil(() => scenario.effects().length >= 2, { timeoutMs: 20_000, what: "it works" });
    await redis.flush();
    await waitUntil(() => scenario.effects().length >= 10, { timeoutMs: 20_000, what: "it works on" });
    await redis.kill();
    await redis.start({ empty: true });
    expect((await worker.ended(60_000)).code).toBe(0);
    expectEachOnce(scenario, keys);
    expectUndisturbed(scenario);
  });

  test("connections that are killed again and again lose no run and abort none", async () => {
    const redis = await startOwnRedis();
    const scenario = await redisScenario(redis.url);
    await scenario.enqueue(few);
    const worker = scenario.worker({ args: ["--drain", "--concurrency", "2"] });
    for (const effects of [1, 4, 7, 10]) {
      await works(scenario, effects);
      expect(Number(await redis.command("CLIENT", "KILL", "TYPE", "normal"))).toBeGreaterThan(0);
    }
    expect((await worker.ended(60_000)).code).toBe(0);
    expectEachOnce(scenario, few);
    expectUndisturbed(scenario);
  });

  test("a failover to a replica loses no run and aborts none, and tasks that come later are done", async () => {
    const primary = await startOwnRedis();
    const replica = await startReplica(primary);
    onTestFinished(() => replica.stop());
    const proxy = await startProxy(primary.port);
    const scenario = await redisScenario(proxy.url);
    await scenario.enqueue(few);
    const worker = scenario.worker({ args: ["--drain", "--concurrency", "2"] });
    await works(scenario, 4);
    await primary.kill();
    await replica.command("REPLICAOF", "NO", "ONE");
    proxy.lead(replica.port);
    await scenario.enqueue(["late"]);
    expect((await worker.ended(60_000)).code).toBe(0);
    expectEachOnce(scenario, [...few, "late"]);
    expectUndisturbed(scenario);
  });

  test("a Redis that evicts keys is named by the worker and by doctor, and costs no run", async () => {
    const redis = await startOwnRedis();
    await redis.command("CONFIG", "SET", "maxmemory-policy", "allkeys-random");
    const scenario = await redisScenario(redis.url);
    await scenario.enqueue(few);
    const doctor = await runPawl(["doctor"], { cwd: scenario.folder, env: scenario.env });
    expect(doctor.stdout).toMatch(
      /^MISSING +queue +Redis at .* maxmemory-policy allkeys-random.*noeviction$/m,
    );
    expect(doctor.code).toBe(1);
    const worker = scenario.worker({ args: ["--drain", "--concurrency", "2"] });
    await works(scenario, 2);
    expect(worker.stderr()).toContain("maxmemory-policy allkeys-random and may drop hints");
    // Less than the empty server needs: every key goes.
    await redis.command("CONFIG", "SET", "maxmemory", 1);
    expect((await worker.ended(60_000)).code).toBe(0);
    expectEachOnce(scenario, few);
    expectUndisturbed(scenario);
    await redis.command("CONFIG", "SET", "maxmemory", 0);
    await redis.command("CONFIG", "SET", "maxmemory-policy", "noeviction");
    const healthy = await runPawl(["doctor"], { cwd: scenario.folder, env: scenario.env });
    expect(healthy.stdout).toMatch(/^ok +queue +Redis at .* answers$/m);
  });

  test("without Redis at the start tasks are enqueued and done all the same, and it is said", async () => {
    const scenario = await redisScenario(`redis://127.0.0.1:${await sparePort()}`);
    await scenario.enqueue(["a", "b"]);
    const worker = scenario.worker();
    expect((await worker.ended()).code).toBe(0);
    expect(worker.stderr()).toContain("cannot be reached");
    expectEachOnce(scenario, ["a", "b"]);
  });
});
