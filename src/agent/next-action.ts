import type { CallRow, MessageRow } from "../db/read.ts";
import type { MessageKind } from "../db/schema.ts";
import type { ChatMessage, ReplyMessage, ToolSchema } from "../model/model.ts";
import { noUsage } from "../model/model.ts";
import { estimateTokens, messageOverheadTokens } from "../model/tokens.ts";
import { type Outcome, outcomeOf } from "../outcome.ts";
import { fitReply } from "./long-arguments.ts";
import type { ParsedCall, Protocol } from "./protocols/protocol.ts";
import { replyText } from "./protocols/reply-text.ts";
import { recordText } from "./window.ts";

// The state of a run is a fold over its message log: what has happened decides what to do next, and nothing else does.
// A worker that resumes folds the same messages and comes to the same action.

/** Replies in a row that cannot be used before the run ends as `bad_replies`. */
export const maxBadReplies = 3;

/** A message of the log, and how it goes over the wire. */
export interface LogEntry {
  seq: number;
  step: number;
  kind: MessageKind;
  ordinal: number | null;
  tokens: number;
  /** A reply of which nothing could be used. */
  isBad: boolean;
  message: ChatMessage;
}

/** A tool call of the last reply that has no result yet. */
export interface PendingCall extends ParsedCall {
  step: number;
  ordinal: number;
  /** Epoch of the owner that started it; null if nobody did. */
  startedEpoch: number | null;
  startedAt: number | null;
  /** Its arguments are not what the model meant: a secret in them was left out of the record. It is not run. */
  isRedacted: boolean;
}

/** System prompt and tools: the same for many runs, so the log only names them by their hash. */
export interface Prompt {
  system: string;
  tools: ToolSchema[];
}

export interface RunState {
  /** Tokens a request may have; infinite where none is sent. */
  budgetTokens: number;
  seq: number;
  /** Complete model replies, over all owners. */
  steps: number;
  /** Of these, what a fork copied: they do not count for its limit. */
  copiedSteps: number;
  modelCalls: number;
  system: LogEntry | null;
  task: LogEntry | null;
  prompt: Prompt;
  toolTokens: number;
  /** What stands for the messages up to its `throughSeq`. */
  compaction: { throughSeq: number; body: string; tokens: number } | null;
  compactions: number;
  /** Messages after the compaction, without system and task. */
  entries: LogEntry[];
  /** What the last reply says beside its actions. */
  said: string;
  pending: PendingCall[];
  /** What is wrong with the last reply, until the model has been told. */
  problem: string | null;
  badReplies: number;
  answer: string | null;
  refusal: string | null;
  /** What a tool said when it ended the run. */
  ending: string | null;
}

export type Action =
  | { kind: "ask"; step: number }
  | { kind: "act"; calls: PendingCall[] }
  | { kind: "tell"; text: string }
  | { kind: "finish"; outcome: Outcome };

export function emptyState(budgetTokens = Number.POSITIVE_INFINITY): RunState {
  return {
    budgetTokens,
    seq: 0,
    steps: 0,
    copiedSteps: 0,
    modelCalls: 0,
    system: null,
    task: null,
    prompt: { system: "", tools: [] },
    toolTokens: 0,
    compaction: null,
    compactions: 0,
    entries: [],
    said: "",
    pending: [],
    problem: null,
    badReplies: 0,
    answer: null,
    refusal: null,
    ending: null,
  };
}

/** What to do next. */
export function nextAction(state: RunState, limits: { maxSteps: number }): Action {
  if (state.refusal !== null)
    return { kind: "finish", outcome: outcomeOf("refused", { error: state.refusal }) };
  if (state.ending !== null)
    return { kind: "finish", outcome: outcomeOf("ended_by_tool", { error: state.ending }) };
  if (state.pending.length > 0) return { kind: "act", calls: state.pending };
  if (state.answer !== null)
    return { kind: "finish", outcome: outcomeOf("finished", { result: state.answer }) };
  if (state.problem !== null && state.badReplies >= maxBadReplies) {
    const error = `${state.badReplies} replies in a row could not be used; the last one: ${state.problem}`;
    return { kind: "finish", outcome: outcomeOf("bad_replies", { error }) };
  }
  if (state.steps - state.copiedSteps >= limits.maxSteps) {
    const error = `the limit of ${limits.maxSteps} steps is reached: raise it with --max-steps (or maxSteps) and run pawl retry`;
    return { kind: "finish", outcome: outcomeOf("step_limit", { error }) };
  }
  if (state.problem !== null) return { kind: "tell", text: state.problem };
  return { kind: "ask", step: state.steps + 1 };
}

/** Folds the next message into the state. The same messages always give the same state. */
export function applyMessage(
  state: RunState,
  row: Omit<MessageRow, "id" | "runId" | "at">,
  protocol: Protocol,
): void {
  const { seq, step, kind, ordinal, tokens } = row;
  const entry = { seq, step, kind, ordinal, tokens, isBad: false };
  state.seq = row.seq;
  state.steps = Math.max(state.steps, row.step);
  switch (row.kind) {
    case "system": {
      // A later prompt may have taken the place of the one that this message named.
      const content = state.prompt.system;
      const own = messageOverheadTokens + estimateTokens(content);
      state.system = { ...entry, tokens: own, message: { role: "system", content } };
      return;
    }
    case "task":
      state.task = { ...entry, message: JSON.parse(row.body) as ChatMessage };
      return;
    case "reply": {
      const message = applyReply(state, row, protocol);
      const isBad = state.problem !== null;
      state.entries.push(fitReply({ ...entry, message, isBad }, state.budgetTokens));
      state.badReplies = isBad ? state.badReplies + 1 : 0;
      return;
    }
    case "result":
      state.pending = state.pending.filter((call) => call.ordinal !== row.ordinal);
      state.entries.push({ ...entry, message: applyResult(state, row.body) });
      return;
    case "note":
      state.problem = null;
      state.answer = null;
      state.entries.push({ ...entry, message: JSON.parse(row.body) as ChatMessage });
      return;
    default:
      row.kind satisfies never;
  }
}

/** Marks the calls that an earlier owner had started. */
export function applyOpenCalls(state: RunState, open: CallRow[]): void {
  for (const call of state.pending) {
    const row = open.find((each) => each.step === call.step && each.ordinal === call.ordinal);
    if (row?.state !== "started") continue;
    call.startedEpoch = row.epoch;
    call.startedAt = row.startedAt;
  }
}

/** Sets what the first message only names by its hash. */
export function applyPrompt(state: RunState, prompt: Prompt, protocol: Protocol): void {
  state.prompt = prompt;
  if (state.system) state.system.message = { role: "system", content: prompt.system };
  const tools = protocol.requestTools(prompt.tools);
  state.toolTokens = tools.length === 0 ? 0 : estimateTokens(JSON.stringify(tools));
}

/** Puts the record in the place of the messages through `throughSeq`. */
export function applyCompaction(state: RunState, record: { throughSeq: number; body: string }): void {
  const { throughSeq, body } = record;
  state.compaction = { throughSeq, body, tokens: estimateTokens(recordText(body)) };
  state.entries = state.entries.filter((entry) => entry.seq > throughSeq);
  // The same count that a resuming worker gets, which folds nothing but the window.
  state.badReplies = countBadReplies(state.entries);
}

/** Replies in a row at the end of these messages that could not be used. */
function countBadReplies(entries: LogEntry[]): number {
  const replies = entries.filter((entry) => entry.kind === "reply");
  return replies.length - 1 - replies.findLastIndex((entry) => !entry.isBad);
}

function applyReply(
  state: RunState,
  row: Pick<MessageRow, "body" | "step">,
  protocol: Protocol,
): ChatMessage {
  const { finish_reason: finishReason, ...message } = JSON.parse(row.body) as ReplyMessage & {
    finish_reason?: string;
  };
  const reply = { message, finishReason: finishReason ?? null, usage: noUsage, responseId: null };
  const parsed = protocol.readReply(reply, { step: row.step, tools: state.prompt.tools });
  state.said = parsed.kind === "bad" ? replyText(message) : parsed.text;
  state.pending = [];
  state.answer = parsed.kind === "answer" ? parsed.text : null;
  state.refusal = parsed.kind === "refused" ? parsed.text : null;
  state.problem = parsed.kind === "bad" ? parsed.problem : null;
  if (parsed.kind === "calls") {
    state.pending = parsed.calls.map((call, index) => ({
      ...call,
      step: row.step,
      ordinal: index + 1,
      startedEpoch: null,
      startedAt: null,
      isRedacted: false,
    }));
  }
  return protocol.renderReply(
    message,
    state.pending.map((call) => call.wireId),
  );
}

/** A result that ended the run says so in a member of its own, which is not sent. */
function applyResult(state: RunState, body: string): ChatMessage {
  const { ends_run: ending, ...message } = JSON.parse(body) as ChatMessage & { ends_run?: string };
  state.ending ??= ending ?? null;
  return message;
}
