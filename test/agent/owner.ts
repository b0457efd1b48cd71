import path from "node:path";
import { onTestFinished } from "vitest";
import type { Agent } from "../../src/agent/loop.ts";
import { openRunLog, type RunLog, type RunLogOptions } from "../../src/agent/run-log.ts";
import type { Claim } from "../../src/db/claim.ts";
import { openStore, type Store } from "../../src/db/store.ts";
import { silentLogger } from "../../src/log.ts";
import type { Model } from "../../src/model/model.ts";
import { claimOf, identity, newTask } from "../db/suite/scene.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { prompt, protocol, type Turn, taskText } from "./fixture.ts";

export async function openTestStore(): Promise<Store> {
  const store = await openStore({ file: path.join(temporaryFolder(), "pawl.db") });
  onTestFinished(() => store.close());
  return store;
}

/** One owner of a run: its claim and the log as it loaded it. */
export interface Owner {
  claim: Claim;
  log: RunLog;
}

/** Enqueues a run, claims it and writes its first messages. */
export async function firstOwner(
  store: Store,
  { batch = null, ...options }: Options & { batch?: string | null } = {},
): Promise<Owner> {
  await store.enqueue([newTask({ batch })]);
  const owner = await ownerOf(store, options);
  const text = JSON.stringify(prompt);
  const fixed = { spec: "{}", model: "m", baseCommit: null, baseTree: null };
  const hash = await store.begin(owner.claim, { ...fixed, prompt: text });
  owner.log.start(prompt, hash, protocol.renderNote(taskText));
  await owner.log.committed();
  return owner;
}

/** The owner goes, as in a stop, which counts no strike however often; another one claims the run and loads its log. */
export async function nextOwner(store: Store, dead: Owner, options: Options = {}): Promise<Owner> {
  await store.removeWorker(dead.claim.workerId, "stopped");
  return ownerOf(store, options);
}

type Options = Pick<RunLogOptions, "budgetTokens" | "priceOf">;

async function ownerOf(store: Store, options: Options): Promise<Owner> {
  const workerId = await store.registerWorker(identity, { version: "1", leaseMs: 60_000 });
  const row = await store.claim(workerId);
  if (!row) throw new Error("expected a run to claim");
  const claim = claimOf(row);
  const log = openRunLog({ store, claim, protocol, activeMs: () => 0, ...options });
  log.load(await store.loadTail(row.id, row.promptHash));
  return { claim, log };
}

/** Lives through a turn as the loop does: request, reply, results or a note. */
export function take({ log }: Owner, { reply, ids }: Turn): void {
  log.appendReply(log.plan("step", "m"), reply, () => "unsafe");
  for (const call of [...log.state.pending]) {
    log.startCall(call);
    log.appendResult(call, { content: `of ${call.wireId}`, isError: false, note: null, state: "done" });
  }
  if (ids.length === 0) log.appendNote("try again");
}

/** What an owner's log needs to be an agent that only compacts. */
export function agentOf(owner: Owner, model: Model, options: Partial<Agent> = {}): Agent {
  return {
    log: owner.log,
    model,
    protocol,
    tools: [],
    logger: silentLogger,
    modelName: "m",
    maxSteps: 100,
    budgetTokens: 2000,
    maxOutputTokens: 500,
    signal: new AbortController().signal,
    retry: { baseDelayMs: 2 },
    isStopping: () => false,
    contextOf: () => {
      throw new Error("no tool is run here");
    },
    ...options,
  };
}
