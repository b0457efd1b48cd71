import { ModelError, ModelWait } from "../errors.ts";
import type { ModelRequest } from "../model/model.ts";
import { outcomeOf, type Reason } from "../outcome.ts";
import { findTool } from "../tools/execute.ts";
import { endOfBudget } from "./budget.ts";
import { compact } from "./compact.ts";
import { liveReply } from "./live-reply.ts";
import type { Agent, Ended } from "./loop.ts";
import { windowTokens } from "./measurement.ts";
import { preview } from "./preview.ts";
import { reasoningText } from "./protocols/reply-text.ts";
import { type Answered, requestModel } from "./request.ts";
import type { RunLog } from "./run-log.ts";
import { fillImages } from "./task-images.ts";
import { buildWindow, estimateWindow, needsCompaction } from "./window.ts";

/** One request and its reply. Says how the run ends, or what it waits for, where the model cannot go on. */
export async function think(agent: Agent): Promise<Ended | undefined> {
  try {
    return await ask(agent);
  } catch (error) {
    if (error instanceof ModelWait) return waitEnd(error);
    if (!(error instanceof ModelError) || error.kind !== "auth") throw error;
    // The key is mended by a person: the run waits for that, and is not lost.
    return { wait: { kind: "auth", note: error.message, wakeAt: null } };
  }
}

/** How a run is parked that cannot ask any model now. */
function waitEnd({ kind, message: note, wakeAt }: ModelWait): Extract<Ended, { wait: unknown }> {
  return { wait: { kind, note, wakeAt } };
}

async function ask(agent: Agent): Promise<Ended | undefined> {
  const { log } = agent;
  let tokens = tokensOf(log);
  while (needsCompaction(tokens, agent.budgetTokens)) {
    const isShorter = await compact(agent);
    if (isShorter === null) return undefined;
    if (typeof isShorter === "object") return endOfBudget(agent, isShorter);
    tokens = tokensOf(log);
    if (!isShorter && tokens > agent.budgetTokens) return contextExhausted(agent, tokens);
    if (!isShorter) break;
  }
  agent.logger.info("step.started", {
    step: log.state.steps + 1,
    // Numbered like the step: what a fork copied counts for neither.
    maxSteps: agent.maxSteps + log.state.copiedSteps,
    windowTokens: tokens,
  });
  const startedAt = performance.now();
  try {
    const answered = await requestModel(agent, "step", requestOf(agent));
    if (answered && "refusal" in answered) return endOfBudget(agent, answered);
    if (answered) recordReply(agent, answered, performance.now() - startedAt);
    return undefined;
  } catch (error) {
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
    messages: fillImages(buildWindow(agent.log.state), agent.images ?? new Map()),
    ...(tools.length > 0 && { tools }),
    ...(agent.protocol.stop && { stop: agent.protocol.stop }),
    maxOutputTokens: agent.maxOutputTokens,
    ...(agent.parameters && { parameters: agent.parameters }),
    ...liveReply(agent.logger, agent.log.state.steps + 1),
  };
}

function recordReply(agent: Agent, { n, reply }: Answered, ms: number): void {
  agent.log.appendReply(n, reply, (name) => findTool(agent.tools, name)?.class ?? "pure");
  const { steps, pending, problem, said } = agent.log.state;
  const reasoning = reasoningText(reply.message) || null;
  const thought = said === "" ? null : said;
  const { promptTokens, completionTokens } = reply.usage;
  agent.logger.info("step.answered", {
    step: steps,
    ms,
    thought: preview(thought),
    reasoning: preview(reasoning),
    problem,
    promptTokens,
    completionTokens,
  });
  agent.logger.debug("step.thought", {
    step: steps,
    thought,
    reasoning,
    calls: pending.map(({ name, argumentsText }) => `${name} ${argumentsText}`),
  });
}

/** An overflow is answered by one compaction; a key that is refused is thrown on; every other failure ends the run. */
async function recoverFromModel(agent: Agent, error: unknown): Promise<Ended | undefined> {
  if (!(error instanceof ModelError) || error.kind === "auth") throw error;
  if (error.unsupported === "tools") return withoutTools(agent, error);
  if (error.kind === "refused") return failed("refused", error.message);
  if (error.kind !== "overflow") return failed("model_error", error.message);
  const isShorter = await compact(agent);
  if (isShorter !== null && typeof isShorter === "object") return endOfBudget(agent, isShorter);
  // Broken off: the loop decides what that means, this is no end of the run.
  return isShorter || isShorter === null ? undefined : contextExhausted(agent, agent.budgetTokens);
}

/** Another protocol can do without tools, as long as the model has said nothing in this one. */
function withoutTools({ log, protocol, mayChangeProtocol }: Agent, { message }: ModelError): Ended {
  if (mayChangeProtocol && protocol.name === "native" && log.state.steps === 0)
    return { toolsRefused: message };
  return failed("model_error", `${message}: run pawl retry with --protocol react, which needs no tools`);
}

function contextExhausted(agent: Agent, tokens: number): Ended {
  const error = `the window of ${agent.budgetTokens} tokens cannot hold the task and its last step (about ${tokens} tokens): use a model with a larger window or set contextTokens`;
  return failed("context_exhausted", error);
}

function failed(reason: Reason, error: string): Ended {
  return { outcome: outcomeOf(reason, { error }) };
}
