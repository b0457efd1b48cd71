import { expect, test } from "vitest";
import { expectSoundLogs } from "../helpers/invariants.ts";
import type { PawlProcess } from "../helpers/pawl-process.ts";
import { createScenario, markOf, type Story } from "../helpers/scenario.ts";
import { waitUntil } from "../helpers/wait-until.ts";

const seed = Number(process.env.PAWL_CHAOS_SEED ?? Date.now() % 1_000_000);
const stepsPerRun = 8;
const keys = Array.from({ length: 20 }, (_, index) => `r${index}`);
const faults = { kills: 12, stops: 8 };
/** Long enough that a slow machine does not lose it by itself. */
const leaseMs = 1200;
const timeoutMs = 150_000;

const story: Story = (_key, done, run) => {
  if (done >= stepsPerRun) return { content: "all done" };
  return { toolCalls: [run(done + 1, `sleep 0.${(done % 3) + 1}`)] };
};

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
  const scenario = await createScenario(story, { env: { PAWL_LEASE_MS: String(leaseMs) } });
  await scenario.enqueue(keys);
  const start = () => scenario.worker({ args: ["--drain", "--concurrency", "4"] });
  const workers: PawlProcess[] = [start(), start(), start()];
  const isOver = () => {
    const row = scenario
      .database()
      .prepare("SELECT count(*) AS n FROM runs WHERE finished_at IS NULL")
      .get() as { n: number };
    return row.n === 0;
  };
  let kills = 0;
  let stops = 0;
  while (kills < faults.kills || stops < faults.stops) {
    if (isOver()) break;
    const before = scenario.effects().length;
    // A fault for every few commands that were run: progress between faults, whatever the machine's speed.
    await waitUntil(() => isOver() || scenario.effects().length >= before + 3, {
      timeoutMs: 30_000,
      what: "the runs go on",
    });
    const index = Math.floor(random() * workers.length);
    const victim = workers[index];
    if (!victim) continue;
    if (random() < faults.kills / (faults.kills + faults.stops)) {
      victim.child.kill("SIGKILL");
      await victim.ended();
      workers[index] = start();
      kills += 1;
    } else {
      process.kill(victim.pid, "SIGSTOP");
      const stoppedAt = Date.now();
      await waitUntil(() => Date.now() - stoppedAt > leaseMs * 1.5, {
        timeoutMs: 10_000,
        what: "its lease runs out",
      });
      process.kill(victim.pid, "SIGCONT");
      stops += 1;
    }
  }
  await waitUntil(isOver, { timeoutMs, what: "all runs end" });
  for (const worker of workers) worker.child.kill("SIGTERM");
  await Promise.all(workers.map((worker) => worker.ended()));
  const database = scenario.database();
  expectSoundLogs(database);
  const ends = database.prepare("SELECT key, status, reason FROM runs").all() as {
    key: string;
    status: string;
    reason: string;
  }[];
  // Chance may kill three owners of one run before it makes a step; then it ends so by rule, and says so.
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
  const lost = database.prepare("SELECT count(*) AS n FROM events WHERE kind = 'owner_lost'").get() as {
    n: number;
  };
  expect(kills + stops).toBeGreaterThan(5);
  expect(lost.n, "runs really were taken over").toBeGreaterThan(5);
});
