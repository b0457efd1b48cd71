import type { ChatMessage, ReplyMessage } from "../../model/model.ts";

/** A reply of a text protocol as it is sent back: its words alone. No server takes an empty one. */
export function textReply(text: string): ChatMessage {
  return { role: "assistant", content: text.trim() === "" ? "(no text)" : text };
}

/** Whether the model used an interface that a text protocol does not offer. */
export function hasToolCalls(message: ReplyMessage): boolean {
  return Array.isArray(message.tool_calls) && message.tool_calls.length > 0;
}
