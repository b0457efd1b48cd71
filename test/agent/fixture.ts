import fc from "fast-check";
import { applyMessage, emptyState, type Prompt, type RunState } from "../../src/agent/next-action.ts";
import { nativeProtocol } from "../../src/agent/protocols/native.ts";
import type { MessageRow } from "../../src/db/read.ts";
import type { ChatMessage, ModelReply, ReplyMessage } from "../../src/model/model.ts";
import { profileOf } from "../../src/model/profiles.ts";

export const protocol = nativeProtocol(profileOf("http://localhost:8000/v1"));
export const prompt: Prompt = { system: "You are an agent.", tools: [] };
export const taskText = "Fix the bug.\n\nWorking directory: /w  \u{1f41b}";

export type Row = Omit<MessageRow, "id" | "runId" | "at">;

/** A message of a run's log, without its place. */
export type Entry = Pick<Row, "kind" | "body"> & { ordinal?: number };

export const note = (text: string): Entry => ({
  kind: "note",
  body: JSON.stringify(protocol.renderNote(text)),
});
export const result = (ordinal: number, wireId: string, content = "ok"): Entry => ({
  kind: "result",
  ordinal,
  body: JSON.stringify(protocol.renderResult({ wireId, content, isError: false })),
});
export const reply = (message: Partial<ReplyMessage>, finishReason?: string): Entry => ({
  kind: "reply",
  body: JSON.stringify({
    role: "assistant",
    ...message,
    ...(finishReason && { finish_reason: finishReason }),
  }),
});
export const answer = (text: string): Entry => reply({ content: text });
export const calls = (...ids: string[]): Entry => reply({ content: null, tool_calls: ids.map(toolCall) });
export const empty = (): Entry => reply({ content: "" });

function toolCall(id: string) {
  return { id, type: "function", function: { name: "bash", arguments: `{"command":"${id}"}` } };
}

/** The log of a run: its first two messages and these, with seq and step as the owner gives them. */
export function logOf(entries: Entry[]): Row[] {
  const first: Entry[] = [
    { kind: "system", body: JSON.stringify({ role: "system", prompt: "hash" }) },
    { kind: "task", body: JSON.stringify(protocol.renderNote(taskText)) },
  ];
  let step = 0;
  return [...first, ...entries].map(({ kind, body, ordinal = null }, index) => {
    if (kind === "reply") step += 1;
    return { seq: index + 1, step, epoch: 1, kind, ordinal, body, tokens: 10 };
  });
}

export function fold(rows: Row[], state: RunState = startState()): RunState {
  for (const row of rows) applyMessage(state, row, protocol);
  return state;
}

function startState(): RunState {
  return { ...emptyState(), prompt };
}

/** What a model may do in one step; unusable replies and refusals among it. */
export type Turn = { reply: ModelReply; ids: string[] };

const usage = { promptTokens: 500, completionTokens: 5, cachedTokens: 0, reasoningTokens: 0 };

export function turnOf(message: Partial<ReplyMessage>, finishReason: string | null, ids: string[]): Turn {
  const whole: ReplyMessage = { role: "assistant", ...message };
  return { reply: { message: whole, finishReason, usage, responseId: null }, ids };
}

/** A call that the output limit cut off: nothing of its reply is run. */
const halfCall = { id: "half", type: "function", function: { name: "bash", arguments: '{"comm' } };

/** Turns of all kinds; ids may repeat between turns, as small models make them. */
export const anyTurn: fc.Arbitrary<Turn> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc
      .tuple(fc.uniqueArray(fc.stringMatching(/^c[0-9]$/), { minLength: 1, maxLength: 4 }), fc.string())
      .map(([ids, text]) => turnOf({ content: text, tool_calls: ids.map(toolCall) }, "tool_calls", ids)),
  },
  { weight: 2, arbitrary: fc.constant(turnOf({ content: "" }, "stop", [])) },
  { weight: 1, arbitrary: fc.constant(turnOf({ content: "x", tool_calls: [halfCall] }, "length", [])) },
  { weight: 2, arbitrary: fc.string().map((text) => turnOf({ content: `${text} cut` }, "length", [])) },
);

/** The entries that a turn leaves in the log of a run that goes on. */
export function entriesOf({ reply: { message, finishReason }, ids }: Turn): Entry[] {
  const told = ids.length > 0 ? ids.map((id, index) => result(index + 1, id)) : [note("try again")];
  return [reply(message, finishReason ?? undefined), ...told];
}

/** What is wrong with a conversation: a result without its call right before it, or a call without a result. */
export function brokenPairs(messages: ChatMessage[]): string[] {
  const problems: string[] = [];
  let open: string[] = [];
  for (const message of messages) {
    if (message.role === "tool") {
      if (!open.includes(message.tool_call_id)) problems.push(`no call for ${message.tool_call_id}`);
      open = open.filter((id) => id !== message.tool_call_id);
      continue;
    }
    problems.push(...open.map((id) => `no result for ${id}`));
    open = message.role === "assistant" ? (message.tool_calls ?? []).map(({ id }) => id) : [];
  }
  return [...problems, ...open.map((id) => `no result for ${id}`)];
}
