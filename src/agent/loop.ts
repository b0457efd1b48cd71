import { type AbortKind, RunAborted } from "../abort.ts";
import { ModelError, messageOf, TerminatingError } from "../errors.ts";
import { failpoint } from "../failpoint.ts";
import type { Logger } from "../log.ts";
import type { Model, ModelReply, ModelRequest } from "../model/model.ts";
import { type Outcome, outcomeOf, type WaitKind } from "../outcome.ts";
import { executeCall, findTool, recoverCall } from "../tools/execute.ts";
import type { Tool, ToolContext, ToolOutput } from "../tools/tool.ts";
import { compact } from "./compact.ts";
import { nextAction, type PendingCall } from "./next-action.ts";
import type { Protocol } from "./protocols/protocol.ts";
import { decideRecovery, unknownOutcome } from "./recover.ts";
import type { RunLog } from "./run-log.ts";
import { buildWindow, estimateWindow, needsCompaction, windowTokens } from "./window.ts";

/** Everything one run needs; dependencies first. */
export interface Agent {
  log: RunLog;
  model: Model;
  protocol: Protocol;
  tools: Tool[];
  logger: Logger;
  modelName: string;
  maxSteps: number;
  /** Tokens a request may have, the reply's not counted. */
  budgetTokens: number;
  maxOutputTokens: number;
  /** Aborted with a RunAborted that says why. */
  signal: AbortSignal;
  /** True once the worker wants to stop: the run is left at the next checkpoint. */
  isStopping(): boolean;
  contextOf(call: { step: number; ordinal: number }): ToolContext;
}

/** The run ended, or has to wait for something outside of it. */
export type Ended = { outcome: Outcome } | { wait: { kind: WaitKind; note: string; wakeAt: number | null } };

/**
 * Runs the agent from where its log stands to its end: ask the model, run its tool calls, observe, again.
 * Throws LeaseLostError, or RunAborted of kind `shutdown` or `lease_lost`; then the log is complete as far as it goes
 * and the next owner goes on from there.
 */
export async function runAgent(agent: Agent): Promise<Ended> {
  for (;;) {
    const stopped = await checkStop(agent);
    if (stopped) return stopped;
    const action = nextAction(agent.log.state, agent);
    switch (action.kind) {
      case "ask": {
        const failed = await think(agent);
        if (failed) return { outcome: failed };
        break;
      }
      case "act": {
        const ended = await act(agent, action.calls);
        if (ended) return { outcome: ended };
        break;
      }
      case "tell":
        agent.log.appendNote(action.text);
        break;
      case "finish":
        await agent.log.committed();
        return { outcome: action.outcome };
      default:
        return action satisfies never;
    }
  }
}

/** Between two checkpoints: was the run cancelled or paused, is its time over, does the worker stop? */
async function checkStop(agent: Agent): Promise<Ended | undefined> {
  const { log, signal } = agent;
  if (agent.isStopping() && !signal.aborted) {
    await log.committed();
    throw new RunAborted("shutdown");
  }
  const asked = log.asked();
  const kind: AbortKind | undefined = signal.aborted
    ? signal.reason instanceof RunAborted
      ? signal.reason.kind
      : "shutdown"
    : asked.cancelAt !== null
      ? "cancel"
      : undefined;
  if (kind === undefined) {
    if (asked.pauseAt === null) return undefined;
    await log.committed();
    return { wait: { kind: "paused", note: "paused by request", wakeAt: null } };
  }
  if (kind === "shutdown" || kind === "lease_lost") throw signal.reason;
  await log.committed();
  return { outcome: stopOutcome(kind) };
}

function stopOutcome(kind: "cancel" | "time_limit"): Outcome {
  if (kind === "cancel") return outcomeOf("cancelled");
  const error =
    "the time limit of the run is reached: raise it with --time-limit-ms (or timeLimitMs) and run pawl retry";
  return outcomeOf("time_limit", { error });
}

/** One request and its reply. Gives the outcome where the model cannot go on. */
async function think(agent: Agent): Promise<Outcome | undefined> {
  const { log } = agent;
  let tokens = tokensOf(log);
  while (needsCompaction(tokens, agent.budgetTokens)) {
    const isShorter = await compact(agent);
    tokens = tokensOf(log);
    if (!isShorter && tokens > agent.budgetTokens) return contextExhausted(agent, tokens);
    if (!isShorter) break;
  }
  const n = log.plan("step", agent.modelName);
  await log.committed();
  failpoint("plan.committed");
  if (log.asked().cancelAt !== null) {
    log.failModelCall(n, "not sent: the run was cancelled");
    return undefined;
  }
  agent.logger.debug("model.asked", {
    step: log.state.steps + 1,
    messages: log.state.entries.length + 2,
    tokens,
  });
  try {
    const reply = await agent.model.ask(requestOf(agent), agent.signal);
    failpoint("model.answered");
    recordReply(agent, n, reply);
    return undefined;
  } catch (error) {
    log.failModelCall(n, messageOf(error));
    if (agent.signal.aborted) return undefined;
    return recoverFromModel(agent, error);
  }
}

function tokensOf(log: RunLog): number {
  return windowTokens(estimateWindow(log.state), log.measured());
}

function requestOf(agent: Agent): ModelRequest {
  const tools = agent.protocol.requestTools(agent.log.state.prompt.tools);
  return {
    model: agent.modelName,
    messages: buildWindow(agent.log.state),
    ...(tools.length > 0 && { tools }),
    maxOutputTokens: agent.maxOutputTokens,
  };
}

function recordReply(agent: Agent, n: number, reply: ModelReply): void {
  agent.log.appendReply(n, reply, (name) => findTool(agent.tools, name)?.class ?? "pure");
  const { steps, pending, answer } = agent.log.state;
  agent.logger.debug("model.answered", {
    step: steps,
    thought: typeof reply.message.content === "string" ? reply.message.content : null,
    reasoning: reply.message.reasoning_content ?? null,
    calls: pending.map((call) => `${call.name} ${call.argumentsText}`),
    isAnswer: answer !== null,
  });
}

/** An overflow is answered by one compaction; every other failure that reaches this ends the run. */
async function recoverFromModel(agent: Agent, error: unknown): Promise<Outcome | undefined> {
  if (!(error instanceof ModelError)) throw error;
  if (error.kind === "refused") return outcomeOf("refused", { error: error.message });
  if (error.kind !== "overflow") return outcomeOf("model_error", { error: error.message });
  const compacted = await compact(agent);
  return compacted ? undefined : contextExhausted(agent, agent.budgetTokens);
}

function contextExhausted(agent: Agent, tokens: number): Outcome {
  const error = `the window of ${agent.budgetTokens} tokens cannot hold the task and its last step (about ${tokens} tokens): use a model with a larger window or set contextTokens`;
  return outcomeOf("context_exhausted", { error });
}

/**
 * Answers the open calls in the order asked: read-only neighbours together, all others one at a time. Gives an outcome
 * where a tool ended the run.
 */
async function act(agent: Agent, calls: PendingCall[]): Promise<Outcome | undefined> {
  for (const group of groupCalls(agent, calls)) {
    if (agent.signal.aborted || agent.isStopping()) return undefined;
    for (const call of group) if (needsStartRow(agent, call)) agent.log.startCall(call);
    await agent.log.committed();
    failpoint("call.started");
    const settled = await Promise.allSettled(group.map((call) => answer(agent, call)));
    failpoint("call.finished");
    const ended = recordResults(agent, group, settled);
    if (ended) return ended;
  }
  return undefined;
}

function groupCalls(agent: Agent, calls: PendingCall[]): PendingCall[][] {
  const groups: PendingCall[][] = [];
  let isOpen = false;
  for (const call of calls) {
    const isPure = classOf(agent, call) === "pure" && call.startedEpoch === null;
    if (isPure && isOpen) groups.at(-1)?.push(call);
    else groups.push([call]);
    isOpen = isPure;
  }
  return groups;
}

function classOf(agent: Agent, call: PendingCall) {
  // A name that is no tool of ours gets an error result: nothing is run.
  return findTool(agent.tools, call.name)?.class ?? "pure";
}

function needsStartRow(agent: Agent, call: PendingCall): boolean {
  return call.startedEpoch === null && classOf(agent, call) !== "pure";
}

type Answer = { output: ToolOutput; state: "done" | "interrupted" };

async function answer(agent: Agent, call: PendingCall): Promise<Answer> {
  const context = agent.contextOf(call);
  const input = { tools: agent.tools, name: call.name, argumentsText: call.argumentsText, context };
  agent.logger.debug("call.started", {
    call: context.callId,
    tool: call.name,
    arguments: call.argumentsText,
  });
  if (call.startedEpoch === null) return { output: await executeCall(input), state: "done" };
  const tool = findTool(agent.tools, call.name);
  const recovery = decideRecovery({ class: tool?.class ?? "unsafe", canLook: tool?.recover !== undefined });
  const unknown = (detail: string | null): Answer => ({
    output: {
      content: unknownOutcome({ tool: call.name, startedAt: call.startedAt, detail }),
      isError: true,
      note: "interrupted",
    },
    state: "interrupted",
  });
  if (recovery === "unknown") return unknown(null);
  if (recovery === "rerun") return { output: await executeCall(input), state: "done" };
  const found = await recoverCall({ ...input, startedEpoch: call.startedEpoch });
  if (found.kind === "unknown") return unknown(found.detail);
  if (found.kind === "done") return { output: found.output, state: "done" };
  // Nothing happened, and now it never will: this is the first try, under our epoch.
  agent.log.startCall(call);
  await agent.log.committed();
  return { output: await executeCall(input), state: "done" };
}

function recordResults(
  agent: Agent,
  group: PendingCall[],
  settled: PromiseSettledResult<Answer>[],
): Outcome | undefined {
  let ended: Outcome | undefined;
  for (const [index, call] of group.entries()) {
    const result = settled[index];
    if (result?.status === "rejected") {
      if (!(result.reason instanceof TerminatingError)) throw result.reason;
      const { message } = result.reason;
      ended ??= outcomeOf("ended_by_tool", { error: message });
      agent.log.appendResult(call, { content: message, isError: true, note: "ended the run", state: "done" });
    } else if (result) {
      const { output, state } = result.value;
      const note = output.note ?? null;
      agent.log.appendResult(call, {
        content: output.content,
        isError: output.isError ?? false,
        note,
        state,
      });
      agent.logger.debug("call.answered", {
        call: `${call.step}.${call.ordinal}`,
        note,
        observation: output.content,
      });
    }
  }
  return ended;
}
