import { expect, it } from "vitest";
import { reasoningText, replyText } from "../../../src/agent/protocols/reply-text.ts";

it.each([
  [{ content: "7", reasoning_content: " why\n" }, "why", "7"],
  [{ content: "7", reasoning: "why" }, "why", "7"],
  [
    {
      content: [
        { type: "thinking", thinking: [{ type: "text", text: "why" }] },
        { type: "text", text: "7" },
      ],
    },
    "why",
    "7",
  ],
  [
    {
      content: [
        { type: "thinking", thinking: "why" },
        { type: "text", text: "7" },
      ],
    },
    "why",
    "7",
  ],
  [{ content: "<think>why</think>\n7" }, "why", "7"],
  [{ content: "why</think>7" }, "why", "7"],
  [{ content: "<think>why" }, "why", ""],
  [{ content: "7", reasoning_content: null }, "", "7"],
  [{ content: null, reasoning_content: "why" }, "why", ""],
])("of %j the reasoning is %j and the text %j", (message, reasoning, text) => {
  const reply = { role: "assistant" as const, ...message };
  expect([reasoningText(reply), replyText(reply)]).toEqual([reasoning, text]);
});
