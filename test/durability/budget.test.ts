import { writeFileSync } from "node:fs";
import path from "node:path";
import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { expectSoundLogs } from "../helpers/invariants.ts";
import { rates, startMeteredServer } from "../helpers/metered-server.ts";
import { type PawlProcess, runPawl, startPawl } from "../helpers/pawl-process.ts";
import { createRandom } from "../helpers/random.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { waitUntil } from "../helpers/wait-until.ts";

const seed = Number(process.env.PAWL_BUDGET_SEED ?? Date.now() % 1_000_000);
const kills = 10;
const requestsPerKill = 10;
const timeoutMs = 180_000;
const dollar = 1_000_000;

test(`8 workers, killed at random, never make the provider's bill pass a batch's dollar (seed ${seed})`, {
  timeout: timeoutMs,
}, async () => {
  const random = createRandom(seed);
  const server = await startMeteredServer(random);
  const config = {
    prices: { m: { input: rates.prompt, output: rates.completion } },
    maxOutputTokens: 500,
  };
  const folder = temporaryFolder({ "pawl.config.json": JSON.stringify(config) });
  const env = { PAWL_HOME: path.join(folder, "data"), OPENAI_BASE_URL: server.url, OPENAI_MODEL: "m" };
  const at = { cwd: folder, env };
  const tasks = Array.from({ length: 24 }, (_, n) => JSON.stringify({ key: `k${n}`, prompt: "Look on." }));
  writeFileSync(path.join(folder, "tasks.jsonl"), tasks.join("\n"));
  const pawl = async (...args: string[]) => {
    const { code, stderr, stdout } = await runPawl(args, at);
    expect(code, stderr).toBe(0);
    return { stderr, stdout };
  };
  await pawl("enqueue", "--file", "tasks.jsonl", "--batch", "night", "--batch-budget-usd", "1");
  const database = new Database(path.join(env.PAWL_HOME, "pawl.db"));
  onTestFinished(() => void database.close());
  const start = () => startPawl(["worker", "--drain", "--concurrency", "2"], at);
  const living = Array.from({ length: 8 }, start);
  const dealt = await killSome({ living, start, database, server, random });
  for (const worker of living) expect((await worker.ended(timeoutMs)).code, worker.stderr()).toBe(0);

  expect(server.billed(), "the bill").toBeLessThanOrEqual(dollar);
  expect(server.billed(), "the budget is used").toBeGreaterThan(dollar / 4);
  expect(dealt).toBe(kills);
  expectSoundBooks(database, server.billed());
  expectSoundLogs(database);
  const ends = database.prepare("SELECT DISTINCT status, wait_kind FROM runs ORDER BY status").all();
  expect(ends.filter((end) => JSON.stringify(end) !== '{"status":"queued","wait_kind":null}')).toEqual([
    { status: "waiting", wait_kind: "quota" },
  ]);
  expect((await pawl("status")).stdout).toContain("used up, nothing new is begun");

  const before = server.billed();
  const raised = await pawl("enqueue", "--batch", "night", "--batch-budget-usd", "1.5");
  expect(raised.stderr).toMatch(
    /batch night may use \$1.50 \(it was \$1.00\)\n\d+ runs that waited for it can go on/,
  );
  expect((await start().ended(timeoutMs)).code).toBe(0);
  expect(server.billed()).toBeGreaterThan(before);
  expect(server.billed()).toBeLessThanOrEqual(dollar * 1.5);
  expectSoundBooks(database, server.billed());
});

/** Kills a worker after every few requests, as long as there are any, and starts another in its place. */
async function killSome(input: {
  living: PawlProcess[];
  start: () => PawlProcess;
  database: Database.Database;
  server: { requests(): number };
  random: () => number;
}): Promise<number> {
  const { living, start, database, server, random } = input;
  // A third death without a step in between would end its run as crash_loop, and rightly so.
  const suspects = database.prepare(
    "SELECT 1 FROM runs JOIN workers ON workers.id = owner_id WHERE pid = ? AND strikes > 1",
  );
  const isVictim = ({ child, pid }: PawlProcess) =>
    child.exitCode === null && suspects.get(pid) === undefined;
  for (let done = 0; done < kills; done += 1) {
    const wanted = server.requests() + requestsPerKill;
    await waitUntil(() => server.requests() >= wanted && living.some(isVictim), {
      timeoutMs: 60_000,
      what: `requests go on after ${done} kills`,
    });
    const victims = living.filter(isVictim);
    const victim = victims[Math.floor(random() * victims.length)];
    if (!victim) throw new Error("expected a worker to kill");
    victim.child.kill("SIGKILL");
    await victim.ended();
    living[living.indexOf(victim)] = start();
  }
  return kills;
}

/** The batch's budget is the sum of its requests, never below the bill; a run's cost the sum of its own. */
function expectSoundBooks(database: Database.Database, billed: number): void {
  const value = (query: string) => (database.prepare(query).get() as { n: number }).n;
  const used = value("SELECT used_micro AS n FROM budgets");
  expect(used, "the books").toBeLessThanOrEqual(value("SELECT cap_micro AS n FROM budgets"));
  expect(used, "the books").toBeGreaterThanOrEqual(billed);
  expect(value("SELECT sum(coalesce(cost_micro, reserved_micro)) AS n FROM model_calls")).toBe(used);
  const wrong = `SELECT count(*) AS n FROM runs WHERE cost_micro != (SELECT coalesce(sum(cost_micro), 0) FROM model_calls
    WHERE run_id = runs.id) OR unpriced_calls > 0`;
  expect(value(wrong), "runs whose cost is not that of their requests").toBe(0);
  expect(
    value("SELECT count(*) AS n FROM model_calls WHERE state = 'lost'"),
    "requests that died",
  ).toBeGreaterThan(0);
}
