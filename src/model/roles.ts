import type { ChatMessage } from "./model.ts";

/** What stands between a result and what people say next. */
export const bridge = { role: "assistant", content: "Understood." } as const;

/**
 * The messages in an order that strict chat templates take: a user message follows the system prompt or a reply, never a
 * tool result or another user message. What stood before a message decides alone, so requests still extend each other.
 */
export function bridgeRoles(messages: ChatMessage[]): ChatMessage[] {
  return messages.flatMap((message, index) => {
    const before = messages[index - 1]?.role;
    const needsBridge = message.role === "user" && (before === "tool" || before === "user");
    return needsBridge ? [bridge, message] : [message];
  });
}
