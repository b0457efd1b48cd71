import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { expectSoundLogs } from "../helpers/invariants.ts";
import { createScenario, markOf, type Scenario, type Story } from "../helpers/scenario.ts";
import { waitUntil } from "../helpers/wait-until.ts";

// The core of the durability suite: a few small scenes, each the whole proof of a rule that everything else stands on. They run
// against any build of pawl, so that the suite can be tried on builds in which the rule is broken.

/** What a check says where the rule is broken. */
export const broken = {
  lease: "a worker whose lease has run out acts no more",
  epoch: "a worker whose run has a newer owner touches nothing",
  startRow: "a command that was started runs once",
  startCommitted: "the start row is on disk before its call runs",
  startedAgainCommitted: "the start row of a new owner is on disk before its call runs",
  planCommitted: "a request is on disk before it is sent",
  replyCommitted: "a committed reply is not asked for again",
  answered: "each call has its answer",
} as const;

const leaseMs = "700";
const waitMs = 20_000;
const oneCommand: Story = (_key, done, run) => (done < 1 ? { toolCalls: [run(1)] } : { content: "all done" });

/** A worker sleeps through its lease with a call committed and not begun; nobody else is there to take the run over. */
export async function checkLease(main?: string): Promise<void> {
  const scenario = await createScenario(oneCommand, { ...(main && { main }) });
  await scenario.enqueue(["k"]);
  const env = { PAWL_LEASE_MS: leaseMs, PAWL_FAILPOINT: "call.started:1:stop" };
  const worker = scenario.worker({ args: [], env });
  await worker.stopped();
  const rows = rowsOf(scenario);
  const epoch = () => Number(rows("SELECT epoch FROM calls")[0]?.epoch);
  const before = epoch();
  const isOver = () => Number(rows("SELECT max(lease_until) AS at FROM workers")[0]?.at) <= Date.now();
  await waitUntil(isOver, { timeoutMs: waitMs, what: "its lease runs out" });
  process.kill(worker.pid, "SIGCONT");
  await waitUntil(() => rows("SELECT 1 FROM runs WHERE finished_at IS NOT NULL").length === 1, {
    timeoutMs: waitMs,
    what: "the run ends",
  });
  worker.child.kill("SIGTERM");
  await worker.ended();
  expect(epoch(), broken.lease).toBeGreaterThan(before);
  await expectUndisturbed(scenario);
}

/** A worker is about to write a file; another takes the run over, writes it, changes it again, and is at work when the first wakes. */
export async function checkEpoch(main?: string): Promise<void> {
  const writeFile = { name: "write_file", arguments: { path: "b.txt", content: "old" } };
  const scenario = await createScenario(
    (_key, done, run) => {
      if (done > 0) return { content: "all done" };
      return { toolCalls: [writeFile, run(1, `echo new >b.txt; ${waitFor(goFile)}`)] };
    },
    { ...(main && { main }) },
  );
  const goFile = path.join(scenario.folder, "go");
  await scenario.enqueue(["k"]);
  const [{ id } = {}] = await scenario.json("list");
  const file = path.join(scenario.folder, "data", "workspaces", String(id), "b.txt");
  const content = () => (existsSync(file) ? readFileSync(file, "utf8") : "");
  const env = { PAWL_LEASE_MS: leaseMs, PAWL_FAILPOINT: "call.started:1:stop" };
  const stale = scenario.worker({ args: [], env });
  await stale.stopped();
  const fresh = scenario.worker();
  await waitUntil(() => content() === "new\n", { timeoutMs: waitMs, what: "the new owner works" });
  process.kill(stale.pid, "SIGCONT");
  await stale.says("lease has run out");
  stale.child.kill("SIGTERM");
  await stale.ended();
  const found = content();
  writeFileSync(goFile, "");
  expect((await fresh.ended()).code).toBe(0);
  expect(found, broken.epoch).toBe("new\n");
  await expectUndisturbed(scenario);
}

/** A worker is killed with a command under way. */
export async function checkStartRow(main?: string): Promise<void> {
  const scenario = await createScenario(oneCommand, { ...(main && { main }) });
  await scenario.enqueue(["k"]);
  await killAt(scenario, "command.started");
  await scenario.worker().ended();
  expect(scenario.effects(), broken.startRow).toEqual([markOf("k", 1)]);
  await expectUndisturbed(scenario);
}

/** Workers are killed in a row at the moment before something is done: what they were about to do must be on disk. */
export async function checkCommits(main?: string): Promise<void> {
  const scenario = await createScenario(oneCommand, { ...(main && { main }) });
  await scenario.enqueue(["k"]);
  const rows = rowsOf(scenario);
  await killAt(scenario, "plan.committed");
  expect(rows("SELECT n, state FROM model_calls"), broken.planCommitted).toEqual([{ n: 1, state: "sent" }]);
  await killAt(scenario, "call.started");
  const started = (epoch: number) => [{ epoch, state: "started" }];
  expect(rows("SELECT epoch, state FROM calls"), broken.startCommitted).toEqual(started(2));
  await killAt(scenario, "call.started");
  expect(rows("SELECT epoch, state FROM calls"), broken.startedAgainCommitted).toEqual(started(3));
  await scenario.worker().ended();
  expect(scenario.server.requests.length, broken.replyCommitted).toBe(2);
  await expectUndisturbed(scenario);
}

/** A worker is killed before it runs the call that its reply asked for. */
export async function checkAnswers(main?: string): Promise<void> {
  const scenario = await createScenario(oneCommand, { ...(main && { main }) });
  await scenario.enqueue(["k"]);
  await killAt(scenario, "call.started");
  await scenario.worker().ended();
  const open = rowsOf(scenario)("SELECT step, ordinal FROM calls WHERE result_seq IS NULL");
  expect(open, broken.answered).toEqual([]);
  await expectUndisturbed(scenario);
}

async function killAt(scenario: Scenario, point: string): Promise<void> {
  const { signal } = await scenario.worker({ env: { PAWL_FAILPOINT: point } }).ended();
  expect(signal, `killed at ${point}`).toBe("SIGKILL");
}

async function expectUndisturbed(scenario: Scenario): Promise<void> {
  expect((await scenario.json("show", "k"))[0]).toMatchObject({ status: "succeeded", result: "all done" });
  expect(scenario.effects()).toEqual([markOf("k", 1)]);
  expectSoundLogs(scenario.database());
}

function rowsOf(scenario: Scenario): (query: string) => Record<string, unknown>[] {
  const database = scenario.database();
  return (query) => database.prepare(query).all() as Record<string, unknown>[];
}

/** A loop of the shell that ends once the file is there, or after half a minute. */
function waitFor(file: string): string {
  return `for i in $(seq 300); do [ -e '${file}' ] && break; sleep 0.1; done`;
}
