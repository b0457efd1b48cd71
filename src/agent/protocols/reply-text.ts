import type { ModelReply, ReplyMessage } from "../../model/model.ts";

/** What a reply says to people: text parts joined in order; reasoning, references and unknown parts are not in it. */
export function replyText(message: ReplyMessage): string {
  return withoutThinking(joinParts(message.content)).trim();
}

/** What a reply says of how it was found, wherever servers put that: members of their own, parts, the head of the text. */
export function reasoningText(message: ReplyMessage): string {
  const own = message.reasoning_content ?? message.reasoning;
  if (typeof own === "string" && own.trim() !== "") return own.trim();
  const parts = Array.isArray(message.content) ? message.content : [];
  const thinking = parts.map((part) => joinParts(Object(part).thinking)).join("");
  if (thinking !== "") return thinking.trim();
  const text = joinParts(message.content);
  const end = text.length - withoutThinking(text).length;
  return text
    .slice(0, end)
    .replace(/<\/?think>/g, "")
    .trim();
}

/** Whether the output limit cut the reply off. */
export function isCutOff(finishReason: string | null): boolean {
  return ["length", "max_tokens", "model_length"].includes(finishReason?.toLowerCase() ?? "");
}

/** Whether the provider's filter stopped the reply. */
export function isFiltered(finishReason: string | null): boolean {
  return ["content_filter", "safety", "sensitive", "refusal"].includes(finishReason?.toLowerCase() ?? "");
}

/** Why there is no answer, where the model or its provider would not give one; else null. */
export function readRefusal({ message, finishReason }: Pick<ModelReply, "message" | "finishReason">) {
  const refusal = refusalText(message);
  if (refusal !== "") return refusal;
  if (!isFiltered(finishReason)) return null;
  return `The provider's content filter stopped the reply. ${replyText(message)}`.trim();
}

/** What a reply says where it declines, or an empty string. */
function refusalText(message: ReplyMessage): string {
  if (typeof message.refusal === "string" && message.refusal.trim() !== "") return message.refusal.trim();
  if (!Array.isArray(message.content)) return "";
  return message.content
    .map((part) => memberText(part, "refusal"))
    .join("")
    .trim();
}

/** Whether a tool call stands in the text as markup. Quoted in code it is talk about calls, not a call. */
export function hasCallMarkup(text: string): boolean {
  return callMarkup.test(text.replace(codeSpans, ""));
}

/** The forms in which servers leave a call that they did not recognise. */
const callMarkup =
  /<tool_calls?>|<function_calls?>|<function=|<invoke name=|<tool_use>|\[TOOL_CALLS\]|<[|｜]tool/;
const codeSpans = /```[\s\S]*?(```|$)|`[^`\n]*`/g;

function joinParts(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part) => memberText(part, "text")).join("");
}

function memberText(part: unknown, member: "text" | "refusal"): string {
  if (typeof part !== "object" || part === null) return "";
  const { text, refusal } = part as { text?: unknown; refusal?: unknown };
  const value = member === "text" ? text : refusal;
  return typeof value === "string" ? value : "";
}

/** Local servers leave reasoning at the head of the text, some without its opening tag, and a cut one without the closing. */
function withoutThinking(text: string): string {
  const end = text.indexOf("</think>");
  const isOpened = /^\s*<think>/.test(text);
  if (end < 0) return isOpened ? "" : text;
  return isOpened || !text.slice(0, end).includes("<think>") ? text.slice(end + "</think>".length) : text;
}
