import { TerminatingError } from "../errors.ts";
import { failpoint } from "../failpoint.ts";
import { type Outcome, outcomeOf } from "../outcome.ts";
import { executeCall, findTool, recoverCall } from "../tools/execute.ts";
import type { ToolOutput } from "../tools/tool.ts";
import type { Agent } from "./loop.ts";
import type { PendingCall } from "./next-action.ts";
import { preview } from "./preview.ts";
import { unknownOutcome } from "./unknown-outcome.ts";

/**
 * Answers the open calls in the order asked: read-only neighbours together, all others one at a time. Gives an outcome
 * where a tool ended the run.
 */
export async function act(agent: Agent, calls: PendingCall[]): Promise<Outcome | undefined> {
  for (const group of groupCalls(agent, calls)) {
    if (agent.signal.aborted || agent.isStopping()) return undefined;
    for (const call of group) if (needsStartRow(agent, call)) agent.log.startCall(call);
    await agent.log.committed();
    failpoint("reply.committed");
    if (group.some((call) => needsStartRow(agent, call))) failpoint("call.started");
    const settled = await Promise.allSettled(group.map((call) => timedAnswer(agent, call)));
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

async function timedAnswer(agent: Agent, call: PendingCall): Promise<Answer & { ms: number }> {
  const startedAt = performance.now();
  const answered = await answer(agent, call);
  return { ...answered, ms: performance.now() - startedAt };
}

async function answer(agent: Agent, call: PendingCall): Promise<Answer> {
  const context = agent.contextOf(call);
  const input = { tools: agent.tools, name: call.name, argumentsText: call.argumentsText, context };
  agent.logger.info("tool.started", {
    call: context.callId,
    tool: call.name,
    arguments: preview(call.argumentsText),
  });
  if (call.startedEpoch === null) return { output: await executeCall(input), state: "done" };
  const found = await recoverCall({ ...input, startedEpoch: call.startedEpoch });
  if (found.kind === "done") return { output: found.output, state: "done" };
  if (found.kind === "unknown") {
    const content = unknownOutcome({ tool: call.name, startedAt: call.startedAt, detail: found.detail });
    return { output: { content, isError: true, note: "interrupted, outcome unknown" }, state: "interrupted" };
  }
  // Harmless to repeat, or certain never to have begun: this is a first try under our epoch.
  agent.log.startCall(call);
  await agent.log.committed();
  return { output: await executeCall(input), state: "done" };
}

function recordResults(
  agent: Agent,
  group: PendingCall[],
  settled: PromiseSettledResult<Answer & { ms: number }>[],
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
      const { output, state, ms } = result.value;
      const note = output.note ?? null;
      agent.log.appendResult(call, {
        content: output.content,
        isError: output.isError ?? false,
        note,
        state,
      });
      const facts = {
        call: `${call.step}.${call.ordinal}`,
        tool: call.name,
        ms,
        isError: output.isError ?? false,
        note,
      };
      agent.logger.info("tool.finished", { ...facts, output: preview(output.content) });
      agent.logger.debug("tool.observed", { call: facts.call, observation: output.content });
    }
  }
  return ended;
}
