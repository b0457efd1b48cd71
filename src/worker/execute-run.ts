import { mkdir } from "node:fs/promises";
import path from "node:path";
import { RunAborted } from "../abort.ts";
import { type Agent, type Ended, runAgent } from "../agent/loop.ts";
import type { Protocol } from "../agent/protocols/protocol.ts";
import { openRunLog, type RunLog } from "../agent/run-log.ts";
import type { Claim, RunRow } from "../db/claim.ts";
import type { Store } from "../db/store.ts";
import type { Environment } from "../environment/environment.ts";
import { commandVariables } from "../environment/variables.ts";
import { ConfigError, LeaseLostError, messageOf, WorkspaceError } from "../errors.ts";
import { failpoint } from "../failpoint.ts";
import type { Logger } from "../log.ts";
import type { Model } from "../model/model.ts";
import { type Outcome, outcomeOf } from "../outcome.ts";
import { type DataPaths, runPaths } from "../paths.ts";
import { specSchema, type TaskSpec } from "../producer/task.ts";
import type { Tool } from "../tools/tool.ts";
import { finishWorkspace } from "../workspace/finish.ts";
import { prepareWorkspace } from "../workspace/prepare.ts";
import type { Workspace } from "../workspace/workspace.ts";

/** Characters a token has at least, about: turns a share of the window into a bound of a result. */
const charsPerToken = 4;
/** A result takes at most this part of the window. */
const resultShare = 0.05;

/** The model a run is bound to, and what is known of it. */
export interface ModelBinding {
  model: Model;
  name: string;
  baseUrl: string | null;
  protocol: Protocol;
  contextTokens: number;
  maxOutputTokens: number;
}

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
  maxResultChars: number;
  /** Binds a run to its model: the recorded one, or the configured one for a run that begins. Throws ConfigError. */
  bindModel(spec: TaskSpec): Promise<ModelBinding>;
  /** Variables of this process that commands may get. */
  env: NodeJS.ProcessEnv;
  isStopping(): boolean;
}

/**
 * Takes a claimed run as far as it goes: prepares its workspace, runs the agent, records the end. Every way out is
 * handled here; it rejects only when the database fails.
 */
export async function executeRun(
  resources: RunResources,
  row: RunRow,
  controller: AbortController,
): Promise<void> {
  const { store, logger } = resources;
  const claim: Claim = { runId: row.id, workerId: row.ownerId ?? "", epoch: row.epoch };
  const clock = startClock(store, row, controller);
  const facts = { run: row.id, epoch: row.epoch };
  try {
    const ended = await work({ resources, row, claim, controller, activeMs: clock.activeMs });
    if ("wait" in ended.end) {
      await store.wait(claim, ended.end.wait, clock.activeMs());
      logger.info("run.waiting", { ...facts, ...ended.end.wait });
      return;
    }
    await finish({ resources, row, claim, activeMs: clock.activeMs }, ended.end.outcome, ended.workspace);
  } catch (error) {
    if (error instanceof LeaseLostError || (error instanceof RunAborted && error.kind === "lease_lost")) {
      logger.info("run.lost", facts);
    } else if (error instanceof RunAborted) {
      await store.release(claim, clock.activeMs()).catch(ignoreLoss);
      failpoint("release.committed");
      logger.info("run.released", facts);
    } else {
      await finish({ resources, row, claim, activeMs: clock.activeMs }, faultOutcome(error), null).catch(
        ignoreLoss,
      );
    }
  } finally {
    clock.stop();
  }
}

interface Work {
  resources: RunResources;
  row: RunRow;
  claim: Claim;
  activeMs(): number;
}

async function work(
  input: Work & { controller: AbortController },
): Promise<{ end: Ended; workspace: Workspace | null }> {
  const { resources, row, claim, controller } = input;
  if (row.cancelAt !== null) return { end: { outcome: outcomeOf("cancelled") }, workspace: null };
  const spec = specSchema.parse(JSON.parse(row.spec));
  const binding = await bindOrWait(resources, spec);
  if ("wait" in binding) return { end: binding, workspace: null };
  const run = runPaths(resources.paths, row.id);
  await mkdir(run.outputs, { recursive: true });
  await mkdir(run.calls, { recursive: true });
  const { repo, ref, dir } = spec;
  const workspace = await prepareWorkspace(
    { paths: resources.paths, run, repo, ref, dir },
    controller.signal,
  );
  failpoint("workspace.prepared");
  const log = openRunLog({
    store: resources.store,
    claim,
    protocol: binding.protocol,
    activeMs: input.activeMs,
  });
  log.load(await resources.store.loadTail(row.id, row.promptHash));
  const tools = chooseTools(resources.tools, spec.tools);
  if (!log.state.task) await begin({ ...input, log, spec, binding, workspace, tools });
  const agent = await createAgent({ ...input, log, spec, binding, workspace, tools });
  resources.logger.info("run.started", {
    run: row.id,
    epoch: row.epoch,
    step: log.state.steps,
    workspace: workspace.path,
    notes: workspace.notes,
  });
  return { end: await runAgent(agent), workspace };
}

/** Settings that lack something are mended by a person: the run waits for that, and is not lost. */
async function bindOrWait(resources: RunResources, spec: TaskSpec): Promise<ModelBinding | WaitEnd> {
  try {
    return await resources.bindModel(spec);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { wait: { kind: "auth", note: error.message, wakeAt: null } };
  }
}

type WaitEnd = Extract<Ended, { wait: unknown }>;

interface Started extends Work {
  log: RunLog;
  spec: TaskSpec;
  binding: ModelBinding;
  workspace: Workspace;
  tools: Tool[];
}

/** What only the first owner does: it fixes model, prompt and base, and writes the first messages. */
async function begin({ resources, claim, log, spec, binding, workspace, tools }: Started): Promise<void> {
  const schemas = tools.map(({ name, description, parameters }) => ({ name, description, parameters }));
  const system = binding.protocol.systemPrompt(spec.systemPrompt ?? resources.systemPrompt, schemas);
  const prompt = { system, tools: schemas };
  const { name: model, baseUrl } = binding;
  const fixed = { model, baseUrl, protocol: "native" as const, environment: "local" as const };
  const hash = await resources.store.begin(claim, {
    prompt: JSON.stringify(prompt),
    spec: JSON.stringify({ ...spec, fixed }),
    model,
    baseCommit: workspace.baseCommit,
    baseTree: workspace.baseTree,
  });
  failpoint("begin.committed");
  log.start(prompt, hash, taskMessage(spec, workspace));
  await log.committed();
  failpoint("task.committed");
}

/** The task word for word, then where the agent is. */
function taskMessage(spec: TaskSpec, workspace: Workspace): string {
  const place = {
    clone: `a fresh git clone of ${spec.repo}${workspace.baseCommit ? ` at ${workspace.baseCommit.slice(0, 12)}` : ""}`,
    dir: "the user's own folder, used in place",
    empty: "an empty folder",
  }[workspace.kind];
  return [
    spec.prompt,
    "",
    `Working directory: ${workspace.path} (${place})`,
    ...workspace.notes.map((note) => `Note: ${note}`),
  ].join("\n");
}

/** The tools of these names, all without names. Throws ConfigError for a name that no tool has. */
export function chooseTools(tools: Tool[], names: string[] | null): Tool[] {
  if (names === null) return tools;
  return names.map((name) => {
    const tool = tools.find((each) => each.name === name);
    if (tool) return tool;
    throw new ConfigError(
      `expected the name of a tool (${tools.map((each) => each.name).join(", ")}), got ${name}: correct the task's tools`,
    );
  });
}

async function createAgent({
  resources,
  row,
  claim,
  log,
  spec,
  binding,
  workspace,
  tools,
  controller,
}: Started & { controller: AbortController }): Promise<Agent> {
  const run = runPaths(resources.paths, row.id);
  const windowChars = Math.floor(binding.contextTokens * resultShare) * charsPerToken;
  const env = await commandVariables({
    from: resources.env,
    workspace: workspace.path,
    gitCeiling: spec.dir === null ? path.dirname(workspace.path) : null,
  });
  return {
    log,
    model: binding.model,
    protocol: binding.protocol,
    tools,
    logger: withRun(resources.logger, row.id),
    modelName: binding.name,
    maxSteps: spec.maxSteps,
    budgetTokens: binding.contextTokens - binding.maxOutputTokens,
    maxOutputTokens: binding.maxOutputTokens,
    signal: controller.signal,
    isStopping: resources.isStopping,
    contextOf: ({ step, ordinal }) => ({
      runId: row.id,
      callId: `${step}.${ordinal}`,
      epoch: claim.epoch,
      key: `${row.id}:${step}.${ordinal}`,
      workspace: workspace.path,
      outputs: run.outputs,
      calls: run.calls,
      environment: resources.environment,
      env,
      commandTimeoutMs: resources.commandTimeoutMs,
      maxResultChars: Math.min(resources.maxResultChars, windowChars),
      signal: controller.signal,
    }),
  };
}

/** Makes the products and commits the outcome. */
async function finish(
  { resources, row, claim, activeMs }: Work,
  outcome: Outcome,
  workspace: Workspace | null,
): Promise<void> {
  const run = runPaths(resources.paths, row.id);
  const products = workspace
    ? await finishWorkspace({ run, workspace, runId: row.id, key: row.key, title: titleOf(row) })
    : { tree: null, headCommit: null, branch: null, changedFiles: null, notes: [] };
  failpoint("finish.prepared");
  const { tree, headCommit, branch, changedFiles, notes } = products;
  await resources.store.finish(claim, {
    ...outcome,
    activeMs: activeMs(),
    tree,
    headCommit,
    branch,
    changedFiles,
  });
  failpoint("finish.committed");
  const { status, reason, error } = outcome;
  resources.logger.info("run.finished", {
    run: row.id,
    status,
    reason,
    ...(error && { error }),
    changedFiles: changedFiles?.length ?? null,
    notes,
  });
}

/** The first line of the task: the subject of the commit. */
function titleOf(row: RunRow): string {
  return specSchema.parse(JSON.parse(row.spec)).prompt.trim().split("\n")[0] ?? "";
}

/** What an exception on a run's way means for it. */
function faultOutcome(error: unknown): Outcome {
  if (error instanceof WorkspaceError) return outcomeOf("workspace_error", { error: error.message });
  return outcomeOf("environment_error", { error: messageOf(error) });
}

function ignoreLoss(error: unknown): void {
  if (!(error instanceof LeaseLostError)) throw error;
}

/** Counts the run's active time over all owners and ends it when its time limit is reached. */
function startClock(store: Store, row: RunRow, controller: AbortController) {
  const startedAt = store.now();
  const activeMs = () => row.activeMs + Math.max(0, store.now() - startedAt);
  const limit = specSchema.shape.timeLimitMs.safeParse(JSON.parse(row.spec).timeLimitMs).data ?? null;
  const timer =
    limit === null
      ? undefined
      : setTimeout(() => controller.abort(new RunAborted("time_limit")), Math.max(0, limit - row.activeMs));
  return { activeMs, stop: () => clearTimeout(timer) };
}

function withRun(logger: Logger, run: string): Logger {
  return {
    info: (event, facts) => logger.info(event, { run, ...facts }),
    debug: (event, facts) => logger.debug(event, { run, ...facts }),
  };
}
