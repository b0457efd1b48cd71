import { copyFileSync, existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import Database from "better-sqlite3";
import { describe, expect, onTestFinished, test } from "vitest";
import { expectSoundLogs } from "../helpers/invariants.ts";
import { runPawl } from "../helpers/pawl-process.ts";
import { createScenario, type Scenario, type Story } from "../helpers/scenario.ts";
import { waitUntil } from "../helpers/wait-until.ts";

const steps = 12;
const manySteps: Story = (_key, done, run) =>
  done < steps ? { toolCalls: [run(done + 1, `echo ${done + 1} >> work`)] } : { content: "all done" };
const oneStep: Story = (_key, done, run) => (done === 0 ? { toolCalls: [run(1)] } : { content: "all done" });

function openCopy(file: string): Database.Database {
  const database = new Database(file);
  onTestFinished(() => void database.close());
  return database;
}

function homeOf({ env }: Scenario): string {
  return env.PAWL_HOME ?? "";
}

/** A data directory with this database and nothing else; gives what a `pawl` needs to use it. */
function restoreElsewhere(scenario: Scenario, copy: string): Record<string, string> {
  const home = path.join(scenario.folder, "restored");
  mkdirSync(home);
  copyFileSync(copy, path.join(home, "pawl.db"));
  return { ...scenario.env, PAWL_HOME: home };
}

describe("pawl backup", () => {
  test("makes sound copies while a worker writes all the time; a worker on one takes the runs to their end", async () => {
    const scenario = await createScenario(manySteps);
    const keys = ["a", "b", "c"];
    await scenario.enqueue(keys);
    const worker = scenario.worker();
    await waitUntil(() => scenario.effects().length >= 4, { timeoutMs: 30_000, what: "the runs have begun" });
    const copies: string[] = [];
    while (worker.child.exitCode === null && copies.length < 5) {
      const copy = path.join(scenario.folder, `${copies.length}.backup`);
      const [said] = await scenario.json("backup", copy);
      expect(said).toMatchObject({ file: copy, bytes: statSync(copy).size, runs: 3 });
      expect(statSync(copy).mode & 0o777).toBe(0o600);
      const database = openCopy(copy);
      expectSoundLogs(database);
      const open = database.prepare("SELECT count(*) AS n FROM runs WHERE finished_at IS NULL").get();
      expect(open).toEqual({ n: said?.openRuns });
      copies.push(copy);
    }
    expect((await worker.ended()).code).toBe(0);
    expectSoundLogs(scenario.database());
    expect(readdirSync(scenario.folder).filter((name) => name.includes(".tmp"))).toEqual([]);

    const [first = ""] = copies;
    const begun = openCopy(first).prepare("SELECT count(*) AS n FROM runs WHERE seq > 3").get();
    const env = restoreElsewhere(scenario, first);
    const again = scenario.worker({ env });
    expect((await again.ended()).code).toBe(0);
    const restored = openCopy(path.join(env.PAWL_HOME ?? "", "pawl.db"));
    expectSoundLogs(restored);
    const ends = restored.prepare("SELECT key, status, strikes FROM runs ORDER BY key").all();
    expect(ends).toEqual(keys.map((key) => expect.objectContaining({ key, status: "succeeded" })));
    expect(begun).not.toEqual({ n: 0 });
    const told = restored
      .prepare("SELECT count(DISTINCT run_id) AS n FROM messages WHERE body LIKE '%goes on from a backup%'")
      .get();
    expect(told, "whoever lost its files is told").toEqual(begun);
  });

  test("never takes the output of a command for that of another one that the original ran after the copy", async () => {
    let life = "original";
    const scenario = await createScenario((_key, done, run) => {
      if (done === 0) return { toolCalls: [run(1)] };
      return done === 1 ? { toolCalls: [run(2, `echo of-${life}`)] } : { content: "all done" };
    });
    await scenario.enqueue(["k"]);
    const killed = scenario.worker({ env: { PAWL_FAILPOINT: "result.committed" } });
    expect((await killed.ended()).signal).toBe("SIGKILL");
    const copy = path.join(scenario.folder, "backup");
    await scenario.json("backup", copy);
    expect((await scenario.worker().ended()).code).toBe(0);
    const home = homeOf(scenario);
    for (const name of ["pawl.db-wal", "pawl.db-shm"]) rmSync(path.join(home, name), { force: true });
    copyFileSync(copy, path.join(home, "pawl.db"));
    life = "restored";
    expect((await scenario.worker().ended()).code).toBe(0);
    const [log] = scenario
      .database()
      .prepare("SELECT body FROM messages WHERE kind = 'result' AND step = 2")
      .pluck()
      .all() as string[];
    expect(log).toContain("of-restored");
    expect(log).not.toContain("of-original");
    expect(await scenario.json("show", "k")).toMatchObject([{ status: "succeeded" }]);
  });

  test("copies a database that a newer or older pawl wrote as it is", async () => {
    const scenario = await createScenario(oneStep);
    await scenario.enqueue(["k"]);
    const database = scenario.database();
    const migrations = "SELECT hash, created_at FROM __drizzle_migrations ORDER BY created_at";
    const newest = "(SELECT max(created_at) FROM __drizzle_migrations)";
    const change = database.prepare(
      `UPDATE __drizzle_migrations SET created_at = ? WHERE created_at = ${newest}`,
    );
    expect(change.run(9e12).changes).toBe(1);
    const copy = path.join(scenario.folder, "backup");
    await scenario.json("backup", copy);
    expect(openCopy(copy).prepare(migrations).all()).toEqual(database.prepare(migrations).all());
  });

  test("refuses a name that is taken, a folder that is missing, and a damaged database, and leaves nothing", async () => {
    const scenario = await createScenario(oneStep);
    await scenario.enqueue(["k"]);
    const at = { cwd: scenario.folder, env: scenario.env };
    const taken = path.join(scenario.folder, "taken");
    writeFileSync(taken, "mine");
    expect(await runPawl(["backup", taken], at)).toMatchObject({
      code: 2,
      stdout: "",
      stderr: `pawl: expected the name of a new file, got ${taken}, which exists: name another one\n`,
    });
    expect(statSync(taken).size).toBe(4);
    const missing = await runPawl(["backup", "nowhere/file"], at);
    expect(missing).toMatchObject({ code: 2, stderr: expect.stringContaining("make the folder first") });
    const file = path.join(homeOf(scenario), "pawl.db");
    scenario.database().pragma("wal_checkpoint(TRUNCATE)");
    const size = statSync(file).size;
    writeFileSync(file, Buffer.alloc(size - 4096 * 2, 0xa5), { flag: "r+" });
    const damaged = await runPawl(["backup", "copy"], at);
    expect(damaged).toMatchObject({ code: 2, stderr: expect.stringContaining("a file that is damaged") });
    expect(existsSync(path.join(scenario.folder, "copy"))).toBe(false);
    expect(readdirSync(scenario.folder).filter((name) => name.includes("copy"))).toEqual([]);
  });
});
