import { onTestFinished } from "vitest";
import type { Claim, RunRow } from "../../../src/db/claim.ts";
import type { Store } from "../../../src/db/store.ts";
import type { NewTask, TaskSpec } from "../../../src/producer/task.ts";

/** Makes a store of its own, empty, on the given clock. */
export type StoreFactory = (options: { now: () => number }) => Promise<Store>;

/** A store whose clock the test moves. */
export interface Scene {
  store: Store;
  clock: { at: number };
  addWorker(leaseMs?: number): Promise<string>;
  /** Enqueues one task and gives the id of its run. */
  add(task?: Partial<NewTask>, spec?: Partial<TaskSpec>): Promise<string>;
  /** Claims what goes next; fails the test if there is nothing. */
  take(workerId: string): Promise<{ row: RunRow; claim: Claim }>;
  /** Claims until there is nothing left and gives the ids in order. */
  takeAll(workerId: string): Promise<string[]>;
}

export const leaseMs = 10_000;

export async function setScene(open: StoreFactory): Promise<Scene> {
  const clock = { at: 1_700_000_000_000 };
  const store = await open({ now: () => clock.at });
  onTestFinished(() => store.close());
  const take = async (workerId: string) => {
    const row = await store.claim(workerId);
    if (!row) throw new Error("expected a run to claim, got none");
    return { row, claim: claimOf(row) };
  };
  return {
    store,
    clock,
    take,
    addWorker: (lease = leaseMs) => store.registerWorker(identity, { version: "1", leaseMs: lease }),
    async add(task, spec) {
      const [result] = await store.enqueue([newTask(task, spec)]);
      return result?.id ?? "";
    },
    async takeAll(workerId) {
      const ids: string[] = [];
      for (let row = await store.claim(workerId); row; row = await store.claim(workerId)) ids.push(row.id);
      return ids;
    },
  };
}

export const identity = { host: "here", bootId: "boot", pidNamespace: "pid:[1]", pid: 1, startTicks: "1" };

export function newTask(task: Partial<NewTask> = {}, spec: Partial<TaskSpec> = {}): NewTask {
  const defaults: TaskSpec = {
    version: 1,
    prompt: "do it",
    repo: null,
    ref: null,
    dir: null,
    maxSteps: 100,
    timeLimitMs: null,
    model: null,
    tools: null,
    systemPrompt: null,
  };
  return { key: null, batch: null, priority: 0, ...task, spec: { ...defaults, ...spec } };
}

export function claimOf(row: RunRow): Claim {
  return { runId: row.id, workerId: row.ownerId ?? "", epoch: row.epoch };
}

export const usage = { promptTokens: 100, completionTokens: 10, cachedTokens: 50, reasoningTokens: 5 };
export const failure = { status: "failed", reason: "model_error", result: null, error: "no" } as const;
export const success = { status: "succeeded", reason: "finished", result: "done", error: null } as const;
export const products = { tree: "t1", headCommit: "h1", branch: "pawl/x", changedFiles: ["a.txt"] };

/** System, task, and one answered request that asked for two calls: the run stands at seq 3, step 1. */
export async function firstStep(store: Store, claim: Claim): Promise<void> {
  const message = { step: 0, body: "{}", tokens: 1 };
  await store.appendMessage(claim, { ...message, seq: 1, kind: "system" }, 0);
  await store.appendMessage(claim, { ...message, seq: 2, kind: "task" }, 0);
  await store.plan(claim, { n: 1, step: 1, purpose: "step", model: "m" }, 0);
  await store.appendReply(claim, { ...message, seq: 3, step: 1, kind: "reply" }, firstReply);
}

export const firstReply = {
  calls: [
    { ordinal: 1, tool: "bash", class: "unsafe", wireId: "c1" },
    { ordinal: 2, tool: "read_file", class: "pure", wireId: "c2" },
  ],
  settled: { n: 1, usage, responseId: "r1" },
  activeMs: 7,
};

/** All that the database knows of a run. */
export async function everythingOf(store: Store, runId: string) {
  return {
    run: await store.getRun(runId),
    messages: await store.loadMessages(runId),
    calls: await store.loadCalls(runId),
    modelCalls: await store.loadModelCalls(runId),
    compactions: await store.loadCompactions(runId),
    snapshots: await store.loadSnapshots(runId),
    events: await store.loadEvents({ runId }),
  };
}
