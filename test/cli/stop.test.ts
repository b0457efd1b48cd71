import path from "node:path";
import Database from "better-sqlite3";
import { describe, expect, onTestFinished, test } from "vitest";
import { commandLine } from "../helpers/command-line.ts";
import { describeWithRedis, startRedis } from "../helpers/redis.ts";
import { createScenario, markOf, type Scenario, type Story } from "../helpers/scenario.ts";
import { waitUntil } from "../helpers/wait-until.ts";

const timeoutMs = 30_000;

const longCommand: Story = (_key, done, run) =>
  done === 0 ? { toolCalls: [run(1, "sleep 600")] } : { content: "all done" };

async function begun(scenario: Scenario, count: number): Promise<void> {
  await waitUntil(() => scenario.effects().length === count, { timeoutMs, what: "the commands run" });
}

describe("pawl stop", () => {
  test("gives the runs of every worker back, waits until all are gone and says each", async () => {
    const scenario = await createScenario(longCommand);
    await scenario.enqueue(["a", "b"]);
    const args = ["--concurrency", "1"];
    const workers = [scenario.worker({ args }), scenario.worker({ args })];
    await begun(scenario, 2);
    const [report] = await scenario.json("stop");
    expect(report).toEqual({
      ok: true,
      workers: workers.map(() => expect.objectContaining({ stopped: true, host: expect.any(String) })),
    });
    const pids = (report as { workers: { pid: number }[] }).workers.map(({ pid }) => pid);
    expect(pids.toSorted()).toEqual(workers.map(({ pid }) => pid).toSorted());
    for (const worker of workers) {
      expect((await worker.ended()).code).toBe(0);
      expect(worker.stderr()).toContain("stopping, as pawl stop asked");
    }
    const rows = scenario.database().prepare("SELECT status, strikes, owner_id FROM runs").all();
    expect(rows).toEqual([1, 2].map(() => ({ status: "queued", strikes: 0, owner_id: null })));
    expect(await scenario.json("status")).toMatchObject([{ workers: [] }]);
    for (const key of ["a", "b"]) await scenario.json("cancel", key);
    await scenario.worker().ended();
    expect(scenario.effects().toSorted()).toEqual([markOf("a", 1), markOf("b", 1)]);
  });

  test("exits 1 and names the worker that does not stop", { timeout: 90_000 }, async () => {
    const scenario = await createScenario(longCommand);
    const worker = scenario.worker({ args: [] });
    await worker.says("takes up to");
    await worker.stopOutsideOfWrites(scenario.database());
    const line = commandLine({ env: scenario.env });
    const { stdout, code } = await line.pawl(["stop"]);
    expect(code).toBe(1);
    expect(stdout).toMatch(
      new RegExp(`^worker \\w+ on .*, pid ${worker.pid}: did not stop within 20 seconds`),
    );
    worker.child.kill("SIGCONT");
    expect((await worker.ended()).code).toBe(0);
  });

  test("says that no worker is alive, also where one was killed or nothing was ever enqueued", async () => {
    const { pawl, folder } = commandLine();
    expect(await pawl(["stop"])).toMatchObject({ stdout: "", stderr: "no worker is alive", code: 0 });
    expect((await pawl(["list"])).stderr).toContain(`no runs in ${folder}`);
    const scenario = await createScenario(longCommand);
    const worker = scenario.worker({ args: [] });
    await worker.says("takes up to");
    worker.child.kill("SIGKILL");
    await worker.ended();
    expect(await scenario.json("stop")).toEqual([{ ok: true, workers: [] }]);
  });

  test("ends a worker that was asked and lost its lease before it noticed", async () => {
    const scenario = await createScenario(longCommand, { env: { PAWL_LEASE_MS: "2000" } });
    const first = scenario.worker({ args: [] });
    await first.says("takes up to");
    const database = scenario.database();
    await first.stopOutsideOfWrites(database);
    database.prepare("UPDATE workers SET drain_at = 1").run();
    const second = scenario.worker({ args: [] });
    await second.says("let its lease run out");
    first.child.kill("SIGCONT");
    expect((await first.ended()).code).toBe(0);
    expect(second.child.exitCode).toBeNull();
  });
});

describeWithRedis("pawl stop with Redis", () => {
  test("reaches workers that wait for hints of Redis", async () => {
    const redis = await startRedis();
    onTestFinished(() => redis.stop());
    const scenario = await createScenario(longCommand, { env: { PAWL_QUEUE: redis.url } });
    const worker = scenario.worker({ args: [] });
    await worker.says("takes up to");
    expect(await scenario.json("stop")).toMatchObject([{ ok: true, workers: [{ pid: worker.pid }] }]);
    expect((await worker.ended()).code).toBe(0);
  });
});

test("a worker whose database a newer pawl has migrated gives its runs back, says so and exits 0", async () => {
  const scenario = await createScenario(longCommand);
  await scenario.enqueue(["k"]);
  const worker = scenario.worker({ args: [] });
  await begun(scenario, 1);
  const file = path.join(scenario.env.PAWL_HOME ?? "", "pawl.db");
  const database = new Database(file);
  onTestFinished(() => void database.close());
  database
    .prepare("INSERT INTO __drizzle_migrations (hash, created_at) VALUES ('newer', 9999999999999)")
    .run();
  expect((await worker.ended()).code).toBe(0);
  expect(worker.stderr()).toContain("a newer pawl has migrated the database");
  const rows = database.prepare("SELECT status, strikes, owner_id FROM runs").all();
  expect(rows).toEqual([{ status: "queued", strikes: 0, owner_id: null }]);
  database.prepare("DELETE FROM __drizzle_migrations WHERE hash = 'newer'").run();
  await scenario.json("cancel", "k");
  await scenario.worker().ended();
});
