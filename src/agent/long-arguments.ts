import type { ChatMessage } from "../model/model.ts";
import { estimateMessageTokens } from "../model/tokens.ts";
import { readArguments } from "../tools/arguments.ts";
import { truncate } from "../tools/truncate.ts";
import type { LogEntry } from "./next-action.ts";

/** Part of the budget that one reply may take in the window. */
const replyShare = 1 / 4;
/** A text is cut to no less than this: head, tail, and how much is gone between them. */
const leastTextChars = 200;
/** No token has more characters than this, as we estimate. */
const charsPerToken = 4;

/**
 * A reply as the window shows it: where it would take more than its share of the budget, the long texts in its arguments
 * (or its text, where it has no calls) keep head and tail only. It depends on nothing else, so a reply looks the same in every request; the log, and the call
 * itself, have the whole.
 */
export function fitReply(entry: LogEntry, budgetTokens: number): LogEntry {
  const maxTokens = budgetTokens * replyShare;
  const { message } = entry;
  if (entry.tokens <= maxTokens || message.role !== "assistant") return entry;
  if (!message.tool_calls) return fitText(entry, message, maxTokens);
  const inputs = message.tool_calls.map((call) => argumentsOf(call));
  let shown = entry;
  for (const shorten of [shortenTexts, shortenWhole]) {
    // Ends: it is halved each time.
    for (let chars = maxTokens * charsPerToken; chars >= leastTextChars; chars = Math.floor(chars / 2)) {
      const texts = inputs.map((input) => JSON.stringify(shorten(input, chars)));
      shown = withArguments(entry, message, texts);
      if (shown.tokens <= maxTokens) return shown;
    }
  }
  return shown;
}

/** Of a reply that is text alone, as in the text protocols, the whole is cut: nobody parses it again. */
function fitText(entry: LogEntry, message: Reply, maxTokens: number): LogEntry {
  const { content } = message;
  let shown = entry;
  // Ends: it is halved each time.
  for (let chars = maxTokens * charsPerToken; chars >= leastTextChars; chars = Math.floor(chars / 2)) {
    if (typeof content !== "string" || shown.tokens <= maxTokens) return shown;
    const cutMessage = { ...message, content: truncate(content, { maxChars: chars, hint: "only here" }) };
    shown = { ...entry, message: cutMessage, tokens: estimateMessageTokens(cutMessage) };
  }
  return shown;
}

type Reply = Extract<ChatMessage, { role: "assistant" }>;
type Call = NonNullable<Reply["tool_calls"]>[number];

function argumentsOf(call: Call): unknown {
  const read = readArguments("function" in call ? call.function.arguments : "");
  return "input" in read ? read.input : {};
}

function withArguments(entry: LogEntry, message: Reply, texts: string[]): LogEntry {
  const tool_calls = message.tool_calls?.map((call, index) =>
    "function" in call ? { ...call, function: { ...call.function, arguments: texts[index] ?? "{}" } } : call,
  );
  const shown = { ...message, ...(tool_calls && { tool_calls }) };
  return { ...entry, message: shown, tokens: estimateMessageTokens(shown) };
}

/** Each text in it by itself, so that the names of the arguments stay. */
function shortenTexts(value: unknown, maxChars: number): unknown {
  if (typeof value === "string") return cut(value, maxChars);
  if (Array.isArray(value)) return value.map((each) => shortenTexts(each, maxChars));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, shortenTexts(member, maxChars)]),
  );
}

/** Where it is long without a long text: many members or numbers. */
function shortenWhole(value: unknown, maxChars: number): unknown {
  return { arguments: cut(JSON.stringify(value), maxChars) };
}

function cut(text: string, maxChars: number): string {
  return truncate(text, { maxChars, hint: "only here: the call was made with all of it" });
}
