import type { ChatMessage } from "../model/model.ts";
import type { LogEntry, RunState } from "./next-action.ts";

// The window is a projection of the log: what one request sends. Between two compactions every request extends the one
// before it byte for byte, so that the provider's prompt cache holds.

/** Newest whole steps that a compaction leaves word for word, at the most. */
const keptSteps = 4;
/** Part of the budget that those steps may take; the last one stays in any case. */
const keptShare = 1 / 3;
/** Part of the budget at which the log is compacted. */
const triggerShare = 0.8;

/** The messages of the next request. */
export function buildWindow(state: RunState): ChatMessage[] {
  const messages: ChatMessage[] = [];
  if (state.system) messages.push(state.system.message);
  if (state.task) messages.push(pinnedTask(state.task.message, state.compaction?.body ?? null));
  for (const entry of state.entries) addMessage(messages, entry.message);
  return messages;
}

/** Strict servers refuse two user messages in a row, as a note behind a result of a text protocol would be. */
function addMessage(messages: ChatMessage[], message: ChatMessage): void {
  const last = messages.at(-1);
  if (last?.role !== "user" || message.role !== "user") {
    messages.push(message);
    return;
  }
  const isText = typeof last.content === "string" && typeof message.content === "string";
  const content = isText
    ? `${last.content}\n\n${message.content}`
    : [...partsOf(last.content), ...partsOf(message.content)];
  messages.splice(-1, 1, { role: "user", content });
}

type UserContent = Extract<ChatMessage, { role: "user" }>["content"];

function partsOf(content: UserContent) {
  return typeof content === "string" ? [{ type: "text" as const, text: content }] : content;
}

/** The task word for word, and in the same message the record of past work: strict servers refuse two user messages in a row. */
function pinnedTask(task: ChatMessage, summary: string | null): ChatMessage {
  if (summary === null || task.role !== "user") return task;
  const { content } = task;
  const record = recordText(summary);
  // With images it is a list of parts, all of which stay as they are.
  const isText = typeof content === "string";
  return { role: "user", content: isText ? content + record : [...content, { type: "text", text: record }] };
}

/** What follows the task once messages were left out. */
export function recordText(summary: string): string {
  return `\n\n--- Record of the work done so far on this task (earlier messages were left out; go on from here) ---\n${summary}`;
}

/** Our estimate of what the window takes, in tokens. */
export function estimateWindow(state: RunState): number {
  const fixed = (state.system?.tokens ?? 0) + (state.task?.tokens ?? 0) + state.toolTokens;
  return state.entries.reduce((sum, entry) => sum + entry.tokens, fixed + (state.compaction?.tokens ?? 0));
}

export function needsCompaction(tokens: number, budgetTokens: number): boolean {
  return tokens > budgetTokens * triggerShare;
}

/**
 * The seq through which to compact: everything before the newest whole steps, at most four and a third of the budget.
 * Undefined when nothing is left to compact. The cut never falls inside of a step, so calls keep their results.
 */
export function chooseCut(entries: LogEntry[], budgetTokens: number): number | undefined {
  const steps = [...new Set(entries.map((entry) => entry.step))];
  const tokensOf = (step: number) =>
    entries.reduce((sum, entry) => sum + (entry.step === step ? entry.tokens : 0), 0);
  let kept = 1;
  let tokens = tokensOf(steps.at(-1) ?? 0);
  while (kept < keptSteps && kept < steps.length) {
    tokens += tokensOf(steps.at(-1 - kept) ?? 0);
    if (tokens > budgetTokens * keptShare) break;
    kept += 1;
  }
  const firstKept = steps.at(-kept);
  if (firstKept === undefined || kept >= steps.length) return undefined;
  return entries.findLast((entry) => entry.step < firstKept)?.seq;
}
