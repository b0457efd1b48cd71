import type { ChatMessage, ModelReply, ReplyMessage, WireToolCall } from "../../model/model.ts";
import type { Profile } from "../../model/profiles.ts";
import { readArguments } from "../../tools/arguments.ts";
import {
  listTools,
  type ParsedCall,
  type ParsedReply,
  type Protocol,
  type ReplyPlace,
  resultText,
} from "./protocol.ts";
import { hasCallMarkup, isCutOff, readRefusal, replyText } from "./reply-text.ts";

/** Actions as the tool calls of the OpenAI format; `profile` says what the server at the other end takes. */
export function nativeProtocol(profile: Profile): Protocol {
  return {
    name: "native",
    describeTools: listTools,
    requestTools: (tools) => tools,
    readReply,
    renderReply: (message, wireIds) => renderReply(message, wireIds, profile),
    renderResult: ({ wireId, content, isError }) => ({
      role: "tool",
      tool_call_id: wireId,
      content: resultText(content, isError),
    }),
    renderNote: (text) => ({ role: "user", content: text }),
  };
}

const problems = {
  cut: "Your last reply was cut off by the output limit, so nothing of it was run. Send less at once: one tool call a reply, and a long file in several parts.",
  empty:
    "Your last reply was empty: neither text nor a tool call. Go on with the task by calling a tool; if the task is done, reply with its result as plain text.",
  markup:
    "Your last reply had a tool call written as text, so nothing was run. Call tools through the tool interface, not by writing markup; if the task is done, reply with its result as plain text.",
};

/** The calls decide whether the task goes on; a finish reason is believed only where it says that something is missing. */
function readReply({ message, finishReason }: ModelReply, { step }: ReplyPlace): ParsedReply {
  const text = replyText(message);
  const refusal = readRefusal({ message, finishReason });
  if (refusal !== null) return { kind: "refused", text: refusal };
  const calls = readCalls(message, step);
  const isCut = isCutOff(finishReason);
  if (calls.length > 0) {
    const isHalf = isCut && calls.some((call) => "problem" in readArguments(call.argumentsText));
    return isHalf ? { kind: "bad", problem: problems.cut } : { kind: "calls", calls, text };
  }
  if (isCut) return { kind: "bad", problem: problems.cut };
  if (text === "") return { kind: "bad", problem: problems.empty };
  return hasCallMarkup(text) ? { kind: "bad", problem: problems.markup } : { kind: "answer", text };
}

function readCalls(message: ReplyMessage, step: number): ParsedCall[] {
  const calls = wireCalls(message);
  const taken = new Set(calls.map(({ id }) => id));
  const used = new Set<string>();
  return calls.map((call, index) => {
    const isOwn = typeof call.id === "string" && call.id.trim() !== "" && !used.has(call.id);
    const wireId = isOwn && call.id ? call.id : freeId(`call_${step}_${index + 1}`, taken);
    used.add(wireId);
    return { name: cleanName(call.function.name), argumentsText: call.function.arguments, wireId };
  });
}

function freeId(wanted: string, taken: Set<unknown>): string {
  let id = wanted;
  // Ends: every round is longer than the one before, and few ids are taken.
  while (taken.has(id)) id += "_";
  taken.add(id);
  return id;
}

/** The calls of a message, whatever shape they came in: no list, holes in it, arguments as an object or left out. */
function wireCalls(message: ReplyMessage): WireToolCall[] {
  const list: unknown = message.tool_calls;
  if (!Array.isArray(list)) return [];
  return list.flatMap((call: Partial<WireToolCall> | null) => {
    if (typeof call !== "object" || call === null) return [];
    const { name, arguments: input } = (call.function ?? {}) as { name?: unknown; arguments?: unknown };
    const text = typeof input === "string" ? input : JSON.stringify(input ?? {});
    return [{ ...call, function: { ...call.function, name: String(name ?? ""), arguments: text } }];
  });
}

/** `functions.bash` and `bash<|channel|>commentary` are `bash`. */
function cleanName(name: string): string {
  return name
    .replace(/<[|｜].*$/s, "")
    .trim()
    .replace(/^functions[.:]/, "");
}

const noText = "(no text)";

function renderReply(message: ReplyMessage, wireIds: string[], profile: Profile): ChatMessage {
  const calls = wireCalls(message).flatMap((call, index) => {
    const wireId = wireIds[index];
    return wireId === undefined ? [] : [renderCall(call, wireId, profile)];
  });
  const { role, content, tool_calls, ...others } = message;
  const text = typeof content === "string" ? content : replyText(message);
  const isBlank = text.trim() === "";
  const extra = Object.entries(others).filter(([, value]) => value !== null);
  return {
    role,
    content: isBlank ? (calls.length > 0 ? profile.emptyContent : noText) : text,
    ...(profile.sendsBack === "everything" && Object.fromEntries(extra)),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

type SentCall = { id: string; type: "function"; function: { name: string; arguments: string } };

function renderCall(call: WireToolCall, wireId: string, profile: Profile): SentCall {
  const sent = { name: safeName(call.function.name), arguments: safeArguments(call.function.arguments) };
  if (profile.sendsBack === "standard") return { id: wireId, type: "function", function: sent };
  return { ...call, id: wireId, type: "function", function: { ...call.function, ...sent } };
}

/** Servers refuse a whole conversation for one name of another form, even of a call that got an error for it. */
function safeName(name: string): string {
  return (
    cleanName(name)
      .replace(/[^\w-]/g, "_")
      .slice(0, 64) || "unnamed"
  );
}

/** The text as it came where it is an object; servers parse it and refuse anything else. */
function safeArguments(text: string): string {
  const read = readArguments(text);
  if ("problem" in read) return "{}";
  return text.trimStart().startsWith("{") ? text : JSON.stringify(read.input);
}
