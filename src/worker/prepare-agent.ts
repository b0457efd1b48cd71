import path from "node:path";
import type { RunGate } from "../agent/admission.ts";
import type { Agent } from "../agent/loop.ts";
import { openRunLog, type RunLog } from "../agent/run-log.ts";
import { addImages, imageReference } from "../agent/task-images.ts";
import type { RunRow } from "../db/claim.ts";
import { commandVariables } from "../environment/variables.ts";
import { ConfigError } from "../errors.ts";
import { failpoint } from "../failpoint.ts";
import { microOf } from "../limits/budget.ts";
import { withFacts } from "../log.ts";
import { runPaths } from "../paths.ts";
import { specSchema, type TaskSpec } from "../producer/task.ts";
import { type ProtocolName, refusedTools } from "../protocol-name.ts";
import { withoutCredentials } from "../redact.ts";
import { loadImages } from "../stored-images.ts";
import { describeUnknownTool } from "../tools/names.ts";
import type { Tool } from "../tools/tool.ts";
import type { Workspace } from "../workspace/workspace.ts";
import type { Work } from "./execute-run.ts";
import type { FittedBinding, ModelBinding } from "./model-binding.ts";
import { promptOf, protocolChanged } from "./run-prompt.ts";
import { type WorkspaceWatch, watchWorkspace } from "./workspace-watch.ts";

/** About how many characters a token has: turns a share of the window into a bound of a result. */
const charsPerToken = 4;
/** A result takes at most this part of the window. */
const resultShare = 0.05;

export interface Prepared {
  work: Work;
  spec: TaskSpec;
  binding: FittedBinding;
  gate: RunGate;
  workspace: Workspace;
}

interface Started extends Prepared {
  log: RunLog;
  tools: Tool[];
  watch: WorkspaceWatch;
}

/** The agent of a run, with its log as far as earlier owners brought it; the first owner begins the log. */
export async function prepareAgent(prepared: Prepared): Promise<Agent> {
  const { resources, row, claim, activeMs } = prepared.work;
  const { protocol, priceOf } = prepared.binding;
  const { store, redact } = resources;
  const budgetTokens = budgetOf(prepared.binding);
  const log = openRunLog({ store, claim, protocol, activeMs, redact, priceOf, budgetTokens });
  const last = (await resources.store.getRun(row.id))?.tree ?? prepared.workspace.baseTree;
  const tree = prepared.workspace.reset === undefined ? last : null;
  log.load(await resources.store.loadTail(row.id, row.promptHash), tree);
  const tools = chooseTools(resources.tools, prepared.spec.tools, protocol.name);
  const watch = watchWorkspace({ ...prepared, log });
  const started = { ...prepared, log, tools, watch };
  if (row.originSeq !== null && log.state.seq === row.originSeq) log.appendNote(await forkMessage(prepared));
  else if (log.state.task) await watch.compare();
  else await begin(started);
  return createAgent(started);
}

/**
 * The tools of these names, all without names; bash-block has only bash. Throws ConfigError for a name that no tool has, and
 * for tools that the protocol cannot offer.
 */
export function chooseTools(tools: Tool[], names: string[] | null, protocol: ProtocolName): Tool[] {
  const refused = refusedTools(protocol, names);
  if (refused !== null) throw new ConfigError(refused);
  const wanted = names ?? (protocol === "bash-block" ? ["bash"] : null);
  if (wanted === null) return tools;
  return wanted.map((name) => {
    const tool = tools.find((each) => each.name === name);
    if (tool) return tool;
    const known = tools.map((each) => each.name);
    throw new ConfigError(`${describeUnknownTool(name, known)}: correct the task's tools`);
  });
}

/** What only the first owner does: it fixes model, prompt and base, and writes the first messages. */
async function begin({ work, spec, binding, workspace, log, tools }: Started): Promise<void> {
  const { resources, claim } = work;
  const prompt = await promptOf({ work, spec, binding }, tools);
  const { name: model, baseUrl, provider, protocol, fit, parameters: modelParameters } = binding;
  const fixed = {
    model,
    baseUrl,
    ...(provider && { provider }),
    protocol: protocol.name,
    ...(fit.contextTokens !== null && { contextTokens: fit.contextTokens }),
    environment: "local" as const,
    modelParameters,
  };
  const hash = await resources.store.begin(claim, {
    prompt: JSON.stringify(prompt),
    spec: JSON.stringify({ ...spec, fixed }),
    model,
    baseCommit: workspace.baseCommit,
    baseTree: workspace.baseTree,
  });
  failpoint("begin.committed");
  if (fit.protocolChange !== null)
    await resources.store.addEvent(claim, protocolChanged(resources.redact(fit.protocolChange)));
  const note = protocol.renderNote(taskMessage(spec, workspace));
  log.start(prompt, hash, addImages(note, imageUrls(spec)));
  await log.committed();
  failpoint("task.committed");
}

/** As the log has them: stored ones by reference. */
function imageUrls({ images = [] }: TaskSpec): string[] {
  return images.map((image) => ("url" in image ? image.url : imageReference(image.hash)));
}

/** What a fork is told after the copied log: what to do, and that its files are elsewhere now. */
async function forkMessage({ work, spec, workspace }: Prepared): Promise<string> {
  const { resources, row } = work;
  const origin = row.originRunId === null ? undefined : await resources.store.getRun(row.originRunId);
  const before = origin && (storedDir(origin) ?? runPaths(resources.paths, origin.id).workspace);
  const place = [
    `The work goes on from here in another working directory, with a copy of the files: ${workspace.path}`,
    ...(before === undefined ? [] : [`Do not use ${before} any more: it belongs to other work.`]),
    "Files that git ignores and the whole outputs of earlier commands are not in the copy.",
  ].join("\n");
  return spec.followUp === undefined ? place : `${spec.followUp}\n\n${place}`;
}

function storedDir(run: RunRow): string | null {
  return specSchema.parse(JSON.parse(run.spec)).dir;
}

/** The task word for word, then where the agent is. */
function taskMessage(spec: TaskSpec, workspace: Workspace): string {
  const place = {
    clone: `a fresh git clone of ${withoutCredentials(spec.repo ?? "")}${workspace.baseCommit ? ` at ${workspace.baseCommit.slice(0, 12)}` : ""}`,
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

async function createAgent({
  work,
  spec,
  binding,
  gate,
  workspace,
  log,
  tools,
  watch,
}: Started): Promise<Agent> {
  const { resources, row, claim, controller } = work;
  const { signal } = controller;
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
    logger: withFacts(resources.logger, { run: row.id }),
    modelName: binding.name,
    gate,
    maxSteps: spec.maxSteps,
    budgetTokens: budgetOf(binding),
    maxOutputTokens: binding.maxOutputTokens,
    parameters: binding.parameters,
    images: await loadImages(resources.store, spec.images),
    budgets: {
      task: { micro: microOf(spec.budgetUsd), tokens: spec.budgetTokens ?? null },
      day: resources.dayBudget,
    },
    priceOf: binding.priceOf,
    mayChangeProtocol: binding.fit.onToolsRefused !== null,
    signal,
    isStopping: resources.isStopping,
    snapshot: watch.snapshot,
    ensureWorkspace: watch.ensure,
    describeInterruption: watch.describeInterruption,
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
      commandSilenceMs: resources.commandSilenceMs,
      maxResultChars: Math.min(resources.maxResultChars, windowChars),
      signal,
    }),
  };
}

/** What prompt and history may take of the window. */
function budgetOf({ contextTokens, maxOutputTokens }: ModelBinding): number {
  return contextTokens - maxOutputTokens;
}
