import { setTimeout } from "node:timers/promises";
import type Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { expectSoundLogs, expectSoundRequests } from "../helpers/invariants.ts";
import type { PawlProcess } from "../helpers/pawl-process.ts";
import { createRandom } from "../helpers/random.ts";
import { describeWithRedis, startRedis } from "../helpers/redis.ts";
import { createScenario, markOf, type Scenario, type Story } from "../helpers/scenario.ts";
import { waitUntil } from "../helpers/wait-until.ts";

const seed = Number(process.env.PAWL_CHAOS_SEED ?? Date.now() % 1_000_000);
const keys = Array.from({ length: 100 }, (_, index) => `r${index}`);
const stepsPerRun = 20;
/** Commands; the reply that ends a run is a step too. */
const commandsPerRun = stepsPerRun - 1;
const faults = { kills: 40, stops: 40 };
/** Progress between faults, whatever the machine's speed: they are spread over four fifths of the work. */
const effectsPerFault = Math.floor((keys.length * commandsPerRun * 0.8) / (faults.kills + faults.stops));
/** Long enough that a slow machine does not lose it by itself. */
const leaseMs = 2000;
const timeoutMs = 8 * 60_000;
/** Small, so that the histories are summarised on the way. */
const config = { contextTokens: 3600, maxOutputTokens: 500 };

/** Some commands last long enough to outlive their worker. */
const story: Story = (_key, done, run) => {
  if (done >= commandsPerRun) return { content: "all done" };
  return { toolCalls: [run(done + 1, `${done % 4 === 1 ? "sleep 0.7; " : ""}seq 1 200`)] };
};

test(`workers killed and stopped at random lose nothing and do nothing twice (seed ${seed})`, {
  timeout: timeoutMs,
}, async () => {
  await withstandChaos({ env: {}, disturb: async () => {} });
});

describeWithRedis("over Redis", () => {
  test(`the same, with Redis flushed and restarted in between (seed ${seed})`, {
    timeout: timeoutMs,
  }, async () => {
    const redis = await startRedis();
    onTestFinished(() => redis.stop());
    await withstandChaos({
      env: { PAWL_QUEUE: redis.url },
      disturb: async (fault) => {
        if (fault === 20) await redis.flush();
        if (fault !== 50) return;
        await redis.kill();
        await redis.start({ empty: true });
      },
    });
  });
});

interface Chaos {
  env: Record<string, string>;
  /** Does more harm, after this many faults. */
  disturb(faultsDone: number): Promise<void>;
}

async function withstandChaos({ env, disturb }: Chaos): Promise<void> {
  const scenario = await createScenario(story, {
    config,
    env: { PAWL_LEASE_MS: String(leaseMs), ...env },
  });
  await scenario.enqueue(keys);
  const database = scenario.database();
  const { kills, stops, workers } = await harass({ scenario, database, disturb });
  expect({ kills, stops }).toEqual(faults);
  expectSoundLogs(database);
  expectSoundRequests(database, scenario.server.requests, kills + stops);
  const ends = database.prepare("SELECT DISTINCT status, reason FROM runs").all();
  expect(ends).toEqual([{ status: "succeeded", reason: "finished" }]);
  const expected = keys.flatMap((key) =>
    Array.from({ length: commandsPerRun }, (_, n) => markOf(key, n + 1)),
  );
  expect(scenario.effects().toSorted(), "each command ran once").toEqual(expected.toSorted());
  expectRealFaults(database, workers);
}

/** Kills and stops workers while they work, and starts others, until the runs have ended. Gives all workers there were. */
async function harass(input: {
  scenario: Scenario;
  database: Database.Database;
  disturb: Chaos["disturb"];
}): Promise<{ kills: number; stops: number; workers: PawlProcess[] }> {
  const { scenario, database, disturb } = input;
  const random = createRandom(seed);
  const start = () => scenario.worker({ args: ["--drain", "--concurrency", "4"] });
  const living = [start(), start(), start()];
  const workers = [...living];
  const asleep = new Set<PawlProcess>();
  const wakeUps: Promise<void>[] = [];
  const done = { kills: 0, stops: 0 };
  while (done.kills < faults.kills || done.stops < faults.stops) {
    const wanted = (done.kills + done.stops + 1) * effectsPerFault;
    const isVictim = (worker: PawlProcess) => !asleep.has(worker) && !hasSuspect(database, worker);
    await waitUntil(() => scenario.effects().length >= wanted && living.some(isVictim), {
      timeoutMs: 60_000,
      what: "the runs go on",
    });
    const victims = living.filter(isVictim);
    const victim = victims[Math.floor(random() * victims.length)];
    if (!victim) continue;
    const left = { kills: faults.kills - done.kills, stops: faults.stops - done.stops };
    if (random() * (left.kills + left.stops) < left.kills) {
      victim.child.kill("SIGKILL");
      await victim.ended();
      const next = start();
      living[living.indexOf(victim)] = next;
      workers.push(next);
      done.kills += 1;
    } else {
      asleep.add(victim);
      wakeUps.push(sleepBeyondLease(victim).then(() => void asleep.delete(victim)));
      done.stops += 1;
    }
    await disturb(done.kills + done.stops);
  }
  await Promise.all(wakeUps);
  for (const worker of living) expect((await worker.ended(timeoutMs)).code).toBe(0);
  return { ...done, workers };
}

/** A third death without a step in between would end its run as crash_loop, and rightly so. */
function hasSuspect(database: Database.Database, { pid }: PawlProcess): boolean {
  const query = `SELECT 1 FROM runs JOIN workers ON workers.id = owner_id WHERE pid = ? AND strikes > 1 AND NOT EXISTS
    (SELECT 1 FROM messages WHERE run_id = runs.id AND kind = 'reply' AND messages.epoch = runs.epoch)`;
  return database.prepare(query).get(pid) !== undefined;
}

async function sleepBeyondLease(worker: PawlProcess): Promise<void> {
  process.kill(worker.pid, "SIGSTOP");
  await setTimeout(leaseMs * 1.5);
  process.kill(worker.pid, "SIGCONT");
}

/** The faults have to have hit something, or nothing was proved. */
function expectRealFaults(database: Database.Database, workers: PawlProcess[]): void {
  const count = (query: string) => (database.prepare(query).get() as { n: number }).n;
  const takeovers = count("SELECT count(*) AS n FROM events WHERE kind = 'owner_lost'");
  expect(takeovers, "runs really were taken over").toBeGreaterThan(40);
  expect(count("SELECT count(*) AS n FROM compactions"), "summaries").toBeGreaterThan(50);
  const inherited =
    "SELECT count(*) AS n FROM calls JOIN messages USING (run_id) WHERE seq = result_seq AND messages.epoch > calls.epoch";
  expect(count(inherited), "commands harvested or adopted").toBeGreaterThan(10);
  const fenced = workers.filter((worker) => worker.stderr().includes("lease has run out"));
  expect(fenced.length, "workers that lost their lease and lived").toBeGreaterThan(5);
}
