import { type AbortKind, RunAborted } from "../abort.ts";
import type { Price } from "../limits/prices.ts";
import type { RetryPolicy } from "../limits/retry.ts";
import type { Logger } from "../log.ts";
import type { Model, ModelRequest } from "../model/model.ts";
import { crashLoopError, type Outcome, outcomeOf, type WaitKind } from "../outcome.ts";
import type { Tool, ToolContext } from "../tools/tool.ts";
import { act, endStarted } from "./act.ts";
import type { RunGate } from "./admission.ts";
import type { AgentBudgets } from "./budget.ts";
import { nextAction } from "./next-action.ts";
import type { Protocol } from "./protocols/protocol.ts";
import type { RunLog } from "./run-log.ts";
import { think } from "./think.ts";

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
  /** What the task and the day may cost; left out where nothing bounds them. */
  budgets?: AgentBudgets;
  /** What a model costs; left out where nobody knows any price. */
  priceOf?(model: string): Price | null;
  /** Whether the protocol may still become another one: nobody chose it. */
  mayChangeProtocol?: boolean;
  /** What differs from the usual when the model is asked again. */
  retry?: Partial<RetryPolicy>;
  /** The images of the task, as data URLs by hash. */
  images?: ReadonlyMap<string, string>;
  /** How the model is to answer, summaries included. */
  parameters?: ModelRequest["parameters"];
  /** Says when which model may be asked; without it always, and only the run's own. */
  gate?: RunGate;
  /** Aborted with a RunAborted that says why. */
  signal: AbortSignal;
  /** True once the worker wants to stop: the run is left at the next checkpoint. */
  isStopping(): boolean;
  /** Records the workspace as it is; null where that cannot be. */
  snapshot?(): Promise<string | null>;
  /**
   * Makes a workspace that is gone anew from the last snapshot and tells the model with the next result. Throws
   * WorkspaceError where it cannot be made.
   */
  ensureWorkspace?(): Promise<void>;
  /** What a call of unknown outcome did to the workspace, after the task's policy was followed; null where nobody knows. */
  describeInterruption?(): Promise<string | null>;
  contextOf(call: { step: number; ordinal: number }): ToolContext;
}

/** The run ended, has to wait for something outside of it, or cannot begin as its model takes no tools (and why). */
export type Ended =
  | { outcome: Outcome }
  | { wait: { kind: WaitKind; note: string; wakeAt: number | null } }
  | { toolsRefused: string };

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
        const ended = await think(agent);
        if (ended) {
          await agent.log.committed();
          return ended;
        }
        break;
      }
      case "act":
        await act(agent, action.calls);
        break;
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
  await endStarted(agent);
  await log.committed();
  return { outcome: stopOutcome(kind) };
}

/** How a run ends that was cancelled, killed its workers, or whose time is over. */
export function stopOutcome(kind: AbortKind): Outcome {
  if (kind === "crash_loop") return outcomeOf("crash_loop", { error: crashLoopError });
  if (kind !== "time_limit") return outcomeOf("cancelled");
  const error =
    "the time limit of the run is reached: raise it with --time-limit-ms (or timeLimitMs) and run pawl retry";
  return outcomeOf("time_limit", { error });
}
