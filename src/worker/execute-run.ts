import { mkdir } from "node:fs/promises";
import { RunAborted } from "../abort.ts";
import { type Ended, runAgent, stopOutcome } from "../agent/loop.ts";
import { type Claim, type RunRow, strikesUntilEnd } from "../db/claim.ts";
import type { Store } from "../db/store.ts";
import type { Environment } from "../environment/environment.ts";
import { ConfigError, DatabaseError, LeaseLostError, messageOf, WorkspaceError } from "../errors.ts";
import { failpoint } from "../failpoint.ts";
import type { Caps } from "../limits/budget.ts";
import type { Logger } from "../log.ts";
import { type Outcome, outcomeOf } from "../outcome.ts";
import { type DataPaths, runPaths } from "../paths.ts";
import { specSchema, type TaskSpec } from "../producer/task.ts";
import type { Redact } from "../redact.ts";
import type { Tool } from "../tools/tool.ts";
import { finishWorkspace } from "../workspace/finish.ts";
import { prepareWorkspace } from "../workspace/prepare.ts";
import type { Products, Workspace, WorkspaceOrigin } from "../workspace/workspace.ts";
import { fallBack } from "./fall-back.ts";
import type { FittedBinding } from "./model-binding.ts";
import { type Prepared, prepareAgent } from "./prepare-agent.ts";
import { withRoom } from "./room.ts";
import { startClock } from "./run-clock.ts";
import { runGate, waitBeforeRun } from "./run-gate.ts";
import { skippedNotes } from "./skipped-snapshots.ts";
import { workspaceRequest } from "./workspace-request.ts";

/** What a worker gives each run. */
export interface RunResources {
  store: Store;
  paths: DataPaths;
  logger: Logger;
  environment: Environment;
  tools: Tool[];
  /** Text of the system prompt where the task names none. */
  systemPrompt: string;
  commandTimeoutMs: number;
  commandSilenceMs: number;
  maxResultChars: number;
  /** What all runs together may use a day. */
  dayBudget: Caps;
  /** Binds a run to its model: the recorded one, or the configured one for a run that begins. Throws ConfigError. */
  bindModel(spec: TaskSpec, signal: AbortSignal): Promise<FittedBinding>;
  /** Variables of this process that commands may get. */
  env: NodeJS.ProcessEnv;
  /** Takes this process's secrets out of a text. */
  redact: Redact;
  isStopping(): boolean;
}

/** How work on a run is broken off. Both give a RunAborted as the reason. */
export interface Breaks {
  /** Ends the work, or the run. */
  controller: AbortController;
  /** Aborted when the worker goes or has lost its lease, also where the run's end has begun for another reason. */
  leaving: AbortSignal;
}

/**
 * Takes a claimed run as far as it goes: prepares its workspace, runs the agent, records the end. Every way out is
 * handled here; it rejects only when the database fails.
 */
export async function executeRun(resources: RunResources, row: RunRow, breaks: Breaks): Promise<void> {
  const { controller } = breaks;
  const { store, logger } = resources;
  const claim: Claim = { runId: row.id, workerId: row.ownerId ?? "", epoch: row.epoch };
  const clock = startClock({ store, claim, run: row, controller });
  const { activeMs } = clock;
  const work: Work = { resources, row, claim, ...breaks, activeMs, workspace: null };
  const facts = { run: row.id, epoch: row.epoch };
  try {
    const ended = await workOn(work).catch(endByFault);
    if ("wait" in ended) {
      const { wait } = ended;
      await store.wait(claim, { ...wait, note: resources.redact(wait.note) }, activeMs());
      failpoint("wait.committed");
      logger.info("run.waiting", { ...facts, ...ended.wait });
      return;
    }
    await finish(work, ended.outcome);
  } catch (error) {
    if (error instanceof LeaseLostError || (error instanceof RunAborted && error.kind === "lease_lost")) {
      logger.info("run.lost", facts);
    } else if (error instanceof RunAborted && error.kind === "shutdown") {
      await store.release(claim, activeMs()).catch(ignoreLoss);
      failpoint("release.committed");
      logger.info("run.released", facts);
    } else {
      throw error;
    }
  } finally {
    clock.stop();
  }
}

/** One claimed run, for as long as this process owns it. */
export interface Work extends Breaks {
  resources: RunResources;
  row: RunRow;
  claim: Claim;
  /** Active time over all owners, in milliseconds. */
  activeMs(): number;
  /** Null until it is made. Every end after that leaves its products, also one by a fault of ours. */
  workspace: Workspace | null;
}

async function workOn(work: Work): Promise<Settled> {
  const { resources, row, controller } = work;
  if (row.cancelAt !== null && row.promptHash === null) return { outcome: outcomeOf("cancelled") };
  const spec = specSchema.parse(JSON.parse(row.spec));
  const binding = await bindOrWait(work, spec);
  if ("wait" in binding) return binding;
  const isEnding = row.cancelAt !== null || row.strikes >= strikesUntilEnd;
  const gate = runGate(work, binding);
  const wait = isEnding ? undefined : await waitBeforeRun(gate, { binding, row });
  if (wait) return wait;
  const run = runPaths(resources.paths, row.id);
  const origin = await copyOrigin(work);
  const { tree: lastTree, seq: lastSeq, baseCommit } = row;
  const request = { ...workspaceRequest(work, spec), lastTree, lastSeq, baseCommit, origin };
  const workspace = await withRoom(work, async () => {
    await mkdir(run.outputs, { recursive: true });
    await mkdir(run.calls, { recursive: true });
    return prepareWorkspace(request, controller.signal);
  });
  work.workspace = workspace;
  failpoint("workspace.prepared");
  let prepared: Prepared = { work, spec, binding, gate, workspace };
  const agent = await prepareAgent(prepared);
  resources.logger.info("run.started", {
    run: row.id,
    epoch: row.epoch,
    step: agent.log.state.steps,
    workspace: workspace.path,
    notes: workspace.notes,
  });
  // Claimed to be ended: what an earlier owner left running is ended with it.
  if (row.cancelAt !== null) controller.abort(new RunAborted("cancel"));
  else if (row.strikes >= strikesUntilEnd) controller.abort(new RunAborted("crash_loop"));
  let ended = await runAgent(agent);
  // Ends: ReAct sends no tools.
  while ("toolsRefused" in ended) {
    prepared = await fallBack(prepared, ended.toolsRefused);
    ended = await runAgent(await prepareAgent(prepared));
  }
  return ended;
}

/** How work on a run ends where nothing can be done about it here. */
type Settled = Exclude<Ended, { toolsRefused: string }>;

/** A fork begins with the log and the snapshots of another run, up to a step. Null for every other run. */
async function copyOrigin({ resources, row, claim }: Work): Promise<WorkspaceOrigin | null> {
  const { originRunId } = row;
  if (row.origin !== "fork" || originRunId === null) return null;
  while (!(await resources.store.copyOrigin(claim)));
  const trees = (await resources.store.loadSnapshots(row.id)).map(({ tree }) => tree);
  return { run: runPaths(resources.paths, originRunId), trees };
}

/** Settings that lack something are mended by a person: the run waits for that, and is not lost. */
async function bindOrWait({ resources, controller }: Work, spec: TaskSpec): Promise<FittedBinding | WaitEnd> {
  try {
    return await resources.bindModel(spec, controller.signal);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { wait: { kind: "auth", note: error.message, wakeAt: null } };
  }
}

type WaitEnd = Extract<Ended, { wait: unknown }>;

/** Makes the products and commits the outcome. */
async function finish(work: Work, outcome: Outcome): Promise<void> {
  const { resources, row, claim, activeMs } = work;
  failpoint("finish.started");
  await resources.store.confirmOwned(claim);
  const products = await withRoom(work, () => makeProducts(work));
  failpoint("finish.prepared");
  const { tree, headCommit, branch, changedFiles } = products;
  const notes = [...products.notes, ...(await skippedNotes(resources.store, row.id))];
  const error = outcome.error === null ? null : resources.redact(outcome.error);
  await resources.store.finish(claim, {
    ...outcome,
    error,
    activeMs: activeMs(),
    tree,
    headCommit,
    branch,
    changedFiles,
    notes,
  });
  failpoint("finish.committed");
  const { status, reason } = outcome;
  resources.logger.info("run.finished", {
    run: row.id,
    status,
    reason,
    ...(error && { error }),
    changedFiles: changedFiles?.length ?? null,
    notes,
  });
}

async function makeProducts({ resources, row, claim, workspace, leaving }: Work): Promise<Products> {
  if (workspace === null) {
    return { tree: null, headCommit: null, branch: null, changedFiles: null, notes: [] };
  }
  return finishWorkspace({
    run: runPaths(resources.paths, row.id),
    workspace,
    runId: row.id,
    key: row.key,
    title: titleOf(row),
    signal: leaving,
    confirmOwned: () => resources.store.confirmOwned(claim),
  });
}

/** The first line of the task: the subject of the commit. */
function titleOf(row: RunRow): string {
  return specSchema.parse(JSON.parse(row.spec)).prompt.trim().split("\n")[0] ?? "";
}

/** What an exception on a run's way means for it. Throws it on where the run does not end. */
function endByFault(error: unknown): { outcome: Outcome } {
  if (error instanceof LeaseLostError || (error instanceof RunAborted && !error.endsRun)) throw error;
  // What is wrong with the database is no fault of the run's.
  if (error instanceof DatabaseError) throw error;
  return { outcome: faultOutcome(error) };
}

function faultOutcome(error: unknown): Outcome {
  if (error instanceof RunAborted) return stopOutcome(error.kind);
  if (error instanceof WorkspaceError) return outcomeOf("workspace_error", { error: error.message });
  return outcomeOf("environment_error", { error: messageOf(error) });
}

function ignoreLoss(error: unknown): void {
  if (!(error instanceof LeaseLostError)) throw error;
}
