import { readdirSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { expectSoundLogs } from "../helpers/invariants.ts";
import { createScenario, markOf, type Story } from "../helpers/scenario.ts";

const story: Story = (_key, done, run) =>
  done === 0 ? { toolCalls: [run(1, "cat a.txt")] } : { content: "all done" };

test("a worker stopped while it holds a mirror does not hold up other runs of the source, nor its own", async () => {
  const scenario = await createScenario(story);
  await scenario.enqueue(["a", "b", "c"]);
  const stale = scenario.worker({
    args: ["--concurrency", "1"],
    env: { PAWL_FAILPOINT: "mirror.updated:1:stop", PAWL_LEASE_MS: "2000" },
  });
  await stale.stopped();
  const other = scenario.worker({ args: ["--drain", "--concurrency", "3"] });
  expect((await other.ended(60_000)).code).toBe(0);
  expect(other.stderr()).toContain("is stopped or stuck");
  const ends = () => scenario.database().prepare("SELECT key, status, epoch FROM runs ORDER BY key").all();
  const before = ends();
  expect(before).toEqual([
    { key: "a", status: "succeeded", epoch: 2 },
    { key: "b", status: "succeeded", epoch: 1 },
    { key: "c", status: "succeeded", epoch: 1 },
  ]);
  expect(scenario.effects().toSorted()).toEqual(["a", "b", "c"].map((key) => markOf(key, 1)));
  process.kill(stale.pid, "SIGCONT");
  await stale.says("lease has run out");
  stale.child.kill("SIGTERM");
  expect((await stale.ended()).code).toBe(0);
  expect(ends()).toEqual(before);
  const repos = readdirSync(path.join(scenario.folder, "data", "repos"));
  expect(repos.filter((name) => name.endsWith(".git")).length, "all three share the second one").toBe(2);
  expectSoundLogs(scenario.database());
});
