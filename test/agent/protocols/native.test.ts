import { describe, expect, it } from "vitest";
import { nativeProtocol } from "../../../src/agent/protocols/native.ts";
import type { ParsedReply } from "../../../src/agent/protocols/protocol.ts";
import type { ReplyMessage } from "../../../src/model/model.ts";
import { profileOf } from "../../../src/model/profiles.ts";

const protocol = nativeProtocol(profileOf("http://localhost:8000/v1"));
const usage = { promptTokens: null, completionTokens: null, cachedTokens: null, reasoningTokens: null };

function read(message: unknown, finishReason: string | null = "stop", step = 3): ParsedReply {
  const reply = { ...(message as object), role: "assistant" } as ReplyMessage;
  return protocol.readReply({ message: reply, finishReason, usage, responseId: null }, { step, tools: [] });
}

const bash = (command: string, id = "c1") => ({
  id,
  type: "function",
  function: { name: "bash", arguments: JSON.stringify({ command }) },
});
const half = {
  id: "c2",
  type: "function",
  function: { name: "write_file", arguments: '{"path":"x","content":"ha' },
};
const idsOf = (parsed: ParsedReply) => parsed.kind === "calls" && parsed.calls.map(({ wireId }) => wireId);

describe("reading a reply", () => {
  it.each(["stop", "tool_calls", "other", "unknown", null])(
    "goes by its calls and not by the finish reason %j",
    (finishReason) => {
      expect(
        read({ content: "Let me look.", tool_calls: [bash("a", "c1"), bash("b", "c2")] }, finishReason),
      ).toEqual({
        kind: "calls",
        text: "Let me look.",
        calls: [
          { name: "bash", argumentsText: '{"command":"a"}', wireId: "c1" },
          { name: "bash", argumentsText: '{"command":"b"}', wireId: "c2" },
        ],
      });
    },
  );

  it.each([[[]], [null], [undefined], ["none"], [[null]]])("takes tool_calls %j as none", (tool_calls) => {
    expect(read({ content: " All done.\n", tool_calls }, "tool_calls")).toEqual({
      kind: "answer",
      text: "All done.",
    });
    expect(read({ content: "", tool_calls }, "tool_calls")).toMatchObject({
      kind: "bad",
      problem: expect.stringContaining("was empty"),
    });
  });

  it("joins the text parts of a list and leaves thinking and references out", () => {
    const content = [
      { type: "thinking", thinking: [{ type: "text", text: "secret plan" }] },
      { type: "reference", reference_ids: [1] },
      null,
      { type: "text", text: "The answer " },
      { type: "text", text: "is 7." },
    ];
    expect(read({ content })).toEqual({ kind: "answer", text: "The answer is 7." });
  });

  it.each([
    ["<think>plan</think>\n7", "7"],
    ["plan</think>7", "7"],
    ["The tag <think> is closed by </think>.", "The tag <think> is closed by </think>."],
  ])("leaves reasoning at the head of the text out: %j", (content, text) => {
    expect(read({ content })).toEqual({ kind: "answer", text });
  });

  it.each([
    [{ content: null }],
    [{ content: " \n" }],
    [{ content: "<think>hm" }],
    [{ content: [{ type: "thinking", thinking: [] }] }],
    [{ content: null, reasoning_content: '<tool_call>{"name":"bash"}</tool_call>' }],
  ])("is bad where nothing is said: %j", (message) => {
    expect(read(message)).toMatchObject({ kind: "bad", problem: expect.stringContaining("was empty") });
  });

  it.each([
    [
      { content: null, refusal: "I cannot help with that.", tool_calls: [bash("a")] },
      "stop",
      "I cannot help with that.",
    ],
    [{ content: [{ type: "refusal", refusal: "No." }] }, "stop", "No."],
    [{ content: "" }, "content_filter", "The provider's content filter stopped the reply."],
    [
      { content: "partial", tool_calls: [half] },
      "content_filter",
      "The provider's content filter stopped the reply. partial",
    ],
    [{ content: "" }, "SAFETY", "The provider's content filter stopped the reply."],
  ])("ends as refused and runs no call: %j %s", (message, finishReason, text) => {
    expect(read(message, finishReason)).toEqual({ kind: "refused", text });
  });

  it.each([
    [{ content: "I will now", tool_calls: [bash("a"), half] }, "length"],
    [{ content: "I will now" }, "length"],
    [{ content: "" }, "length"],
    [{ content: "", tool_calls: [half] }, "MAX_TOKENS"],
  ])("runs nothing of what the output limit cut, and says so: %j", (message, finishReason) => {
    expect(read(message, finishReason)).toMatchObject({
      kind: "bad",
      problem: expect.stringContaining("cut off by the output limit"),
    });
  });

  it("runs calls that are whole although the output limit was met", () => {
    expect(read({ tool_calls: [bash("a")] }, "length").kind).toBe("calls");
  });

  it.each([
    'I will list files.\n<tool_call>\n{"name":"list_files","arguments":{"path":"."}}\n</tool_call>',
    "<function=bash><parameter=command>ls</parameter></function>",
    '[TOOL_CALLS][{"name":"bash"}]',
    "<｜tool▁calls▁begin｜>bash",
  ])("is bad where a call is written as text: %j", (content) => {
    expect(read({ content, tool_calls: [] })).toMatchObject({
      kind: "bad",
      problem: expect.stringContaining("written as text"),
    });
  });

  it.each([
    'Fixed. The docs now show ```\n<tool_call>{"name":"bash"}</tool_call>\n```',
    "The parser now knows `<tool_call>` too.",
  ])("is an answer where markup is only quoted: %j", (content) => {
    expect(read({ content }).kind).toBe("answer");
  });

  it.each([
    [
      ["", ""],
      ["call_3_1", "call_3_2"],
    ],
    [[undefined], ["call_3_1"]],
    [
      [null, 7, "  "],
      ["call_3_1", "call_3_2", "call_3_3"],
    ],
    [
      ["call_0", "call_0"],
      ["call_0", "call_3_2"],
    ],
    [
      ["call_3_2", ""],
      ["call_3_2", "call_3_2_"],
    ],
  ])("gives calls with ids %j the ids %j", (ids, expected) => {
    expect(idsOf(read({ tool_calls: ids.map((id) => ({ ...bash("a"), id })) }))).toEqual(expected);
  });

  it.each([
    ["functions.bash", "bash"],
    ["bash<|channel|>commentary", "bash"],
    [" bash ", "bash"],
    ["delete_everything", "delete_everything"],
  ])("reads the tool name %j as %j", (name, expected) => {
    const parsed = read({ tool_calls: [{ id: "c1", function: { name, arguments: "{}" } }] });
    expect(parsed).toMatchObject({ calls: [{ name: expected }] });
  });

  it.each([
    [{ command: "ls" }, '{"command":"ls"}'],
    [undefined, "{}"],
    [null, "{}"],
    ['{"command":', '{"command":'],
  ])("takes arguments %j as %s", (input, argumentsText) => {
    const parsed = read({ tool_calls: [{ id: "c1", function: { name: "bash", arguments: input } }] });
    expect(parsed).toMatchObject({ calls: [{ argumentsText }] });
  });
});
