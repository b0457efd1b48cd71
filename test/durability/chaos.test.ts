import { setTimeout } from "node:timers/promises";
import { expect, test } from "vitest";
import { expectSoundLogs, expectSoundRequests } from "../helpers/invariants.ts";
import type { PawlProcess } from "../helpers/pawl-process.ts";
import { createScenario, markOf, type Story } from "../helpers/scenario.ts";
import { waitUntil } from "../helpers/wait-until.ts";

const seed = Number(process.env.PAWL_CHAOS_SEED ?? Date.now() % 1_000_000);
const stepsPerRun = 8;
const keys = Array.from({ length: 20 }, (_, index) => `r${index}`);
const faults = { kills: 14, stops: 10 };
const effectsPerFault = 6;
/** Long enough that a slow machine does not lose it by itself. */
const leaseMs = 1500;
const timeoutMs = 150_000;
/** Small, so that the histories are summarised on the way. */
const config = { contextTokens: 3600, maxOutputTokens: 500 };

const story: Story = (_key, done, run) => {
  if (done >= stepsPerRun) return { content: "all done" };
  return { toolCalls: [run(done + 1, `sleep 0.${(done % 3) + 1}; seq 1 300`)] };
};

async function sleepBeyondLease(worker: PawlProcess): Promise<void> {
  process.kill(worker.pid, "SIGSTOP");
  await setTimeout(leaseMs * 1.5);
  process.kill(worker.pid, "SIGCONT");
}

/** A small generator of numbers in [0, 1), the same for the same seed (mulberry32). */
function createRandom(start: number): () => number {
  let state = start;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

test(`workers killed and stopped at random lose nothing and do nothing twice (seed ${seed})`, {
  timeout: timeoutMs + 30_000,
}, async () => {
  const random = createRandom(seed);
  const scenario = await createScenario(story, { config, env: { PAWL_LEASE_MS: String(leaseMs) } });
  await scenario.enqueue(keys);
  const start = () => scenario.worker({ args: ["--drain", "--concurrency", "4"] });
  const workers: PawlProcess[] = [start(), start(), start()];
  const all = [...workers];
  const database = scenario.database();
  const count = (query: string) => (database.prepare(query).get() as { n: number }).n;
  const isOver = () => count("SELECT count(*) AS n FROM runs WHERE finished_at IS NULL") === 0;
  // A third death without a step between would end the run as crash_loop, and rightly so.
  const hasSuspect = ({ pid }: PawlProcess) =>
    count(
      `SELECT count(*) AS n FROM runs JOIN workers ON workers.id = owner_id WHERE pid = ${pid} AND strikes > 1`,
    ) > 0;
  const asleep = new Set<PawlProcess>();
  const wakeUps: Promise<void>[] = [];
  let kills = 0;
  let stops = 0;
  while (kills < faults.kills || stops < faults.stops) {
    if (isOver()) break;
    const before = scenario.effects().length;
    // A fault for every few commands that were run: progress between faults, whatever the machine's speed.
    await waitUntil(() => isOver() || scenario.effects().length >= before + effectsPerFault, {
      timeoutMs: 30_000,
      what: "the runs go on",
    });
    const index = Math.floor(random() * workers.length);
    const isKill = random() < faults.kills / (faults.kills + faults.stops);
    const victim = workers[index];
    if (!victim || asleep.has(victim) || hasSuspect(victim)) continue;
    if (isKill) {
      victim.child.kill("SIGKILL");
      await victim.ended();
      const next = start();
      workers[index] = next;
      all.push(next);
      kills += 1;
    } else {
      asleep.add(victim);
      wakeUps.push(sleepBeyondLease(victim).then(() => void asleep.delete(victim)));
      stops += 1;
    }
  }
  await Promise.all(wakeUps);
  await waitUntil(isOver, { timeoutMs, what: "all runs end" });
  for (const worker of workers) worker.child.kill("SIGTERM");
  await Promise.all(workers.map((worker) => worker.ended()));
  expectSoundLogs(database);
  expectSoundRequests(database, scenario.server.requests, kills + stops);
  const ends = database.prepare("SELECT key, status, reason FROM runs").all() as {
    key: string;
    status: string;
    reason: string;
  }[];
  // Chance may take three owners of one run before it makes a step; then it ends so by rule, and says so.
  const unlucky = ends.filter(({ status }) => status !== "succeeded");
  expect(unlucky.map(({ reason }) => reason)).toEqual(unlucky.map(() => "crash_loop"));
  expect(unlucky.length).toBeLessThanOrEqual(keys.length / 10);
  const effects = scenario.effects();
  expect(new Set(effects).size, "no command ran twice").toBe(effects.length);
  const succeeded = ends.filter(({ status }) => status === "succeeded").map(({ key }) => key);
  const expected = succeeded.flatMap((key) =>
    Array.from({ length: stepsPerRun }, (_, n) => markOf(key, n + 1)),
  );
  expect(effects, "each command of a run that got there ran").toEqual(expect.arrayContaining(expected));
  const faultsDone = { kills: kills > 3, stops: stops > 2 };
  expect(faultsDone, `${kills} kills, ${stops} stops`).toEqual({ kills: true, stops: true });
  const takeovers = count("SELECT count(*) AS n FROM events WHERE kind = 'owner_lost'");
  expect(takeovers, "runs really were taken over").toBeGreaterThan(5);
  expect(count("SELECT count(*) AS n FROM compactions"), "summaries").toBeGreaterThan(0);
  const inherited =
    "SELECT count(*) AS n FROM calls JOIN messages USING (run_id) WHERE seq = result_seq AND messages.epoch > calls.epoch";
  expect(count(inherited), "commands harvested or adopted").toBeGreaterThan(0);
  const fenced = all.filter((worker) => worker.stderr().includes("lease has run out"));
  expect(fenced.length, "workers that lost their lease and lived").toBeGreaterThan(0);
});
