import { afterEach, describe, expect, it } from "vitest";
import { nativeProtocol } from "../../../src/agent/protocols/native.ts";
import type { ParsedReply } from "../../../src/agent/protocols/protocol.ts";
import type { ReplyMessage } from "../../../src/model/model.ts";
import { openaiModel } from "../../../src/model/openai.ts";
import { profileOf } from "../../../src/model/profiles.ts";
import { startModelServer } from "../../helpers/model-server.ts";
import { completion, startRawServer } from "../../helpers/raw-server.ts";

const protocol = nativeProtocol(profileOf("http://localhost:8000/v1"));
const usage = { promptTokens: null, completionTokens: null, cachedTokens: null, reasoningTokens: null };

/** Reads a message and renders it back as the loop does. */
function roundTrip(message: unknown, baseUrl = "http://localhost:8000/v1") {
  const reply = { message: message as ReplyMessage, finishReason: "stop", usage, responseId: null };
  const parsed = protocol.readReply(reply, { step: 3, tools: [] });
  const wireIds = parsed.kind === "calls" ? parsed.calls.map(({ wireId }) => wireId) : [];
  return JSON.parse(
    JSON.stringify(nativeProtocol(profileOf(baseUrl)).renderReply(message as ReplyMessage, wireIds)),
  );
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

describe("sending a reply back", () => {
  it("keeps reasoning, signatures and unknown members in place and invents none", () => {
    const signed = { ...bash("a", "g1"), extra_content: { google: { thought_signature: "U0lHLTE=" } } };
    const message = {
      role: "assistant",
      content: null,
      reasoning_content: "think-é-🔍",
      tool_calls: [signed, bash("b", "g2")],
    };
    expect(roundTrip(message)).toEqual(message);
  });

  it("leaves members that the format does not name out for servers that refuse them", () => {
    const message = {
      role: "assistant",
      content: "x",
      reasoning_content: "r",
      tool_calls: [{ ...bash("a"), index: 0 }],
    };
    expect(roundTrip(message, "https://api.mistral.ai/v1")).toEqual({
      role: "assistant",
      content: "x",
      tool_calls: [bash("a")],
    });
  });

  it("drops empty calls and null members, and never sends a blank message", () => {
    expect(roundTrip({ role: "assistant", content: "hi", tool_calls: [], refusal: null })).toEqual({
      role: "assistant",
      content: "hi",
    });
    expect(roundTrip({ role: "assistant", content: " \n", tool_calls: null })).toEqual({
      role: "assistant",
      content: "(no text)",
    });
  });

  it.each([
    ["http://localhost:8000/v1", null],
    ["https://ark.cn-beijing.volces.com/api/v3", ""],
    ["https://api.anthropic.com/v1", null],
  ])("beside calls, blank content goes to %s as %j", (baseUrl, content) => {
    for (const came of [null, "", " \n", undefined]) {
      expect(roundTrip({ role: "assistant", content: came, tool_calls: [bash("a")] }, baseUrl).content).toBe(
        content,
      );
    }
  });

  it("sends names and arguments that every server takes", () => {
    const call = (name: string, text: unknown, id: string) => ({ id, function: { name, arguments: text } });
    const tool_calls = [
      call("bash<|channel|>x", '{ "a": 1 }', "1"),
      call("späce bar!", '{"a":', "2"),
      call("", "[1]", "3"),
      call("n".repeat(80), JSON.stringify('{"a":{"b":"{\\"c\\":1}"}}'), "4"),
      call("bash", { a: 1 }, "5"),
    ];
    const sent = roundTrip({ role: "assistant", content: null, tool_calls }).tool_calls;
    expect(sent.map((each: typeof half) => [each.type, each.function.name, each.function.arguments])).toEqual(
      [
        ["function", "bash", '{ "a": 1 }'],
        ["function", "sp_ce_bar_", "{}"],
        ["function", "unnamed", "{}"],
        ["function", "n".repeat(64), '{"a":{"b":"{\\"c\\":1}"}}'],
        ["function", "bash", '{"a":1}'],
      ],
    );
  });

  it("leaves out calls that were not accepted, since nothing answers them", () => {
    const cut = { role: "assistant" as const, content: null, tool_calls: [half] };
    expect(protocol.renderReply(cut, [])).toEqual({ role: "assistant", content: "(no text)" });
  });

  it("gives the same bytes for a message that was stored in between", () => {
    const message = { role: "assistant" as const, content: null, z: 1, a: [2], tool_calls: [bash("a")] };
    const stored = JSON.parse(JSON.stringify(message));
    expect(JSON.stringify(protocol.renderReply(stored, ["c1"]))).toBe(
      JSON.stringify(protocol.renderReply(message, ["c1"])),
    );
  });
});

describe("what we say", () => {
  it("is never blank, and an error is marked once", () => {
    const render = (content: string, isError = false) =>
      protocol.renderResult({ wireId: "c1", content, isError }).content;
    expect(protocol.renderResult({ wireId: "c1", content: "out", isError: false })).toEqual({
      role: "tool",
      tool_call_id: "c1",
      content: "out",
    });
    expect([render(" \n"), render("no such file", true), render("Error: x", true)]).toEqual([
      "(no output)",
      "Error: no such file",
      "Error: x",
    ]);
    expect(protocol.renderNote("go")).toEqual({ role: "user", content: "go" });
  });
});

describe("over HTTP", () => {
  const closers: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of closers.splice(0)) await close();
  });

  it("two calls without ids are answered in order under ids of their own", async () => {
    const answers = [
      completion({ role: "assistant", content: null, tool_calls: [bash("echo a", ""), bash("echo b", "")] }),
      completion({ role: "assistant", content: "done" }),
    ];
    const server = await startRawServer((requestNumber) => ({ body: answers[requestNumber - 1] }));
    closers.push(server.close);
    const model = openaiModel({ baseUrl: server.url, apiKey: null });
    const task = protocol.renderNote("task");
    const signal = new AbortController().signal;
    const reply = await model.ask({ model: "m", messages: [task] }, signal);
    const parsed = protocol.readReply(reply, { step: 1, tools: [] });
    const ids = idsOf(parsed) || [];
    const results = ids.map((wireId, index) =>
      protocol.renderResult({ wireId, content: "ab"[index] ?? "", isError: false }),
    );
    const messages = [task, protocol.renderReply(reply.message, ids), ...results];
    expect(
      protocol.readReply(await model.ask({ model: "m", messages }, signal), { step: 2, tools: [] }),
    ).toEqual({
      kind: "answer",
      text: "done",
    });
    expect(server.requests[1]?.body).toMatchObject({
      messages: [
        { role: "user" },
        { role: "assistant", tool_calls: [{ id: "call_1_1" }, { id: "call_1_2" }] },
        { role: "tool", tool_call_id: "call_1_1", content: "a" },
        { role: "tool", tool_call_id: "call_1_2", content: "b" },
      ],
    });
  });

  it("reasoning beside calls goes back byte for byte to a server that asks for it", async () => {
    const server = await startModelServer(({ messages }) =>
      messages.length === 1
        ? { toolCalls: [{ name: "bash", arguments: { command: "ls" } }], reasoning: "think-é-🔍" }
        : { content: "done" },
    );
    closers.push(server.close);
    const model = openaiModel({ baseUrl: server.url, apiKey: null });
    const task = protocol.renderNote("task");
    const signal = new AbortController().signal;
    const { message, ...rest } = await model.ask({ model: "m", messages: [task] }, signal);
    const ids = idsOf(protocol.readReply({ message, ...rest }, { step: 1, tools: [] })) || [];
    const result = protocol.renderResult({ wireId: ids[0] ?? "", content: "", isError: false });
    await model.ask({ model: "m", messages: [task, protocol.renderReply(message, ids), result] }, signal);
    expect(server.requests[1]?.messages.slice(1)).toMatchObject([
      { reasoning_content: "think-é-🔍", tool_calls: [{ id: ids[0] }] },
      { tool_call_id: ids[0], content: "(no output)" },
    ]);
  });
});
