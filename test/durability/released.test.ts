import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { expectSoundLogs } from "../helpers/invariants.ts";
import { createScenario, markOf, type Scenario, type Story } from "../helpers/scenario.ts";
import { waitUntil } from "../helpers/wait-until.ts";

// Each released version leaves a data directory here, as its workers left it when they were killed. To add this version's:
// PAWL_WRITE_FIXTURE=1 npx vitest run test/durability/released.test.ts

const fixtures = path.join(import.meta.dirname, "..", "fixtures", "data");
const steps = 4;

const story: Story = (_key, done, run) =>
  done < steps ? { toolCalls: [run(done + 1, `echo ${done} >> a.txt`)] } : { content: "all done" };

test.each(readdirSync(fixtures))(
  "the runs in a data directory of %s are taken to their end",
  async (fixture) => {
    const scenario = await createScenario(story);
    execFileSync("tar", ["-xzf", path.join(fixtures, fixture), "-C", scenario.folder]);
    adopt(scenario);
    const before = await statuses(scenario);
    expect(before).toEqual({ ended: "succeeded", killed: "running", paused: "waiting", queued: "queued" });
    await scenario.json("resume", "paused");
    expect((await scenario.worker().ended()).code).toBe(0);
    expect(new Set(Object.values(await statuses(scenario)))).toEqual(new Set(["succeeded"]));
    expectSoundLogs(scenario.database());
    const marks = (key: string, from: number) =>
      Array.from({ length: steps - from }, (_, n) => markOf(key, from + n + 1));
    // What is in the log already is not done again, the killed one's second command among it.
    const expected = [...marks("killed", 2), ...marks("paused", 1), ...marks("queued", 0)];
    expect(scenario.effects().toSorted()).toEqual(expected.toSorted());
    const [ended] = await scenario.json("show", "ended");
    expect(ended?.usage, "a version without prices left no cost of 0").toMatchObject({ costUsd: null });
    const [diff] = await scenario.json("diff", "killed");
    expect(JSON.stringify(diff)).toContain("a.txt");
  },
);

/** The fixture's repository and model server are not there any more: these are in their place. */
function adopt(scenario: Scenario): void {
  const database = scenario.database();
  const { spec } = database.prepare("SELECT spec FROM runs WHERE key = 'ended'").get() as { spec: string };
  const { repo, fixed } = JSON.parse(spec) as { repo: string; fixed: { baseUrl: string } };
  const replace = database.prepare("UPDATE runs SET spec = replace(spec, ?, ?), repo = replace(repo, ?, ?)");
  replace.run(fixed.baseUrl, scenario.server.url, "", "");
  replace.run(repo, scenario.repo, repo, scenario.repo);
}

async function statuses(scenario: Scenario): Promise<Record<string, unknown>> {
  return Object.fromEntries((await scenario.json("list")).map(({ key, status }) => [key, status]));
}

if (process.env.PAWL_WRITE_FIXTURE) {
  test("this version's data directory is written", async () => {
    const scenario = await createScenario(story);
    await scenario.enqueue(["ended"]);
    await scenario.worker().ended();
    await scenario.enqueue(["paused"]);
    await scenario.worker({ env: { PAWL_FAILPOINT: "result.committed" } }).ended();
    await scenario.json("pause", "paused");
    await scenario.enqueue(["killed"]);
    await scenario.worker({ env: { PAWL_FAILPOINT: "command.finished:2" } }).ended();
    await waitUntil(() => scenario.effects().length === steps + 1 + 2, { timeoutMs: 20_000, what: "it did" });
    await scenario.enqueue(["queued"]);
    const database = scenario.database();
    database.exec("UPDATE workers SET host = 'elsewhere', lease_until = min(lease_until, 1); VACUUM");
    database.pragma("wal_checkpoint(TRUNCATE)");
    const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };
    mkdirSync(fixtures, { recursive: true });
    const file = path.join(fixtures, `${version}.tar.gz`);
    execFileSync("tar", [
      "--exclude=*-shm",
      "--exclude=*-wal",
      "--exclude=.git/logs",
      "-czf",
      file,
      "-C",
      scenario.folder,
      "data",
    ]);
  });
}
