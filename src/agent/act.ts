import { RunAborted } from "../abort.ts";
import { TerminatingError } from "../errors.ts";
import { failpoint } from "../failpoint.ts";
import { executeCall, findTool, recoverCall } from "../tools/execute.ts";
import type { ToolOutput } from "../tools/tool.ts";
import type { Agent } from "./loop.ts";
import type { PendingCall } from "./next-action.ts";
import { preview } from "./preview.ts";
import { redactedResult } from "./redacted-calls.ts";
import { unknownOutcome } from "./unknown-outcome.ts";

/**
 * Answers the open calls in the order asked: read-only neighbours together, all others one at a time. Where a tool ends
 * the run, the log says so and the calls behind it are not run.
 */
export async function act(agent: Agent, calls: PendingCall[]): Promise<void> {
  for (const group of groupCalls(agent, calls)) {
    if (agent.signal.aborted || agent.isStopping() || agent.log.state.ending !== null) return;
    for (const call of group) if (needsStartRow(agent, call)) agent.log.startCall(call);
    // Reading does nothing that a commit would have to come before; its results may share the reply's.
    if (!isReading(agent, group)) await agent.log.committed();
    if (group.some((call) => needsStartRow(agent, call))) failpoint("call.started");
    await agent.log.confirmOwned();
    await agent.ensureWorkspace?.();
    const settled = await Promise.allSettled(group.map((call) => timedAnswer(agent, call)));
    failpoint("call.finished");
    if (!isReading(agent, group)) {
      // Looked again before the snapshot: what a call deleted with the folder itself must not become the run's change.
      await agent.log.confirmOwned();
      await agent.ensureWorkspace?.();
    }
    recordResults(agent, { group, settled, tree: await treeAfter(agent, group) });
  }
}

/** Before a run ends early: commands that an earlier owner left running are ended, and their calls answered. */
export async function endStarted(agent: Agent): Promise<void> {
  for (const call of agent.log.state.pending.filter(({ startedEpoch }) => startedEpoch !== null)) {
    const answered = await timedAnswer(agent, call).catch((error: unknown): Answer & { ms: number } => {
      if (!(error instanceof RunAborted) || !error.endsRun) throw error;
      return {
        output: { content: `[not run: ${error.message}]`, isError: true },
        state: "interrupted",
        ms: 0,
      };
    });
    const tree = await treeAfter(agent, [call]);
    recordResults(agent, { group: [call], settled: [{ status: "fulfilled", value: answered }], tree });
  }
}

/**
 * The workspace once these calls have run, for the commit of their last result: so log and snapshots agree wherever the
 * log is cut. Reading costs nothing.
 */
async function treeAfter(agent: Agent, group: PendingCall[]): Promise<string | null> {
  if (isReading(agent, group)) return null;
  // Two owners must not take one at the same time.
  await agent.log.confirmOwned();
  return (await agent.snapshot?.()) ?? null;
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

function isReading(agent: Agent, group: PendingCall[]): boolean {
  return group.every((call) => classOf(agent, call) === "pure");
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
  if (call.startedEpoch === null) return { output: await execute(call, input), state: "done" };
  const found = await recoverCall({ ...input, startedEpoch: call.startedEpoch });
  if (found.kind === "done") return { output: found.output, state: "done" };
  if (found.kind === "unknown") {
    const change = (await agent.describeInterruption?.()) ?? null;
    const detail = [found.detail, change].filter(Boolean).join("\n");
    const content = unknownOutcome({ tool: call.name, startedAt: call.startedAt, detail });
    return { output: { content, isError: true, note: "interrupted, outcome unknown" }, state: "interrupted" };
  }
  // Harmless to repeat, or certain never to have begun: this is a first try under our epoch.
  agent.log.startCall(call);
  await agent.log.committed();
  failpoint("call.started");
  return { output: await execute(call, input), state: "done" };
}

async function execute(call: PendingCall, input: Parameters<typeof executeCall>[0]): Promise<ToolOutput> {
  if (call.isRedacted) return { content: redactedResult, isError: true, note: "not run" };
  return executeCall(input);
}

interface Results {
  group: PendingCall[];
  settled: PromiseSettledResult<Answer & { ms: number }>[];
  /** The workspace after the last of them. */
  tree: string | null;
}

function recordResults(agent: Agent, { group, settled, tree: after }: Results): void {
  for (const [index, call] of group.entries()) {
    const result = settled[index];
    const isLast = index === group.length - 1;
    const tree = isLast ? after : null;
    if (result?.status === "rejected") {
      if (!(result.reason instanceof TerminatingError)) throw result.reason;
      const { message } = result.reason;
      const ended = {
        content: message,
        isError: true,
        note: "ended the run",
        state: "done" as const,
      };
      agent.log.appendResult(call, { ...ended, tree, endsRun: true });
    } else if (result) {
      const { output, state, ms } = result.value;
      const note = output.note ?? null;
      agent.log.appendResult(call, {
        content: output.content,
        isError: output.isError ?? false,
        note,
        state,
        tree,
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
}
