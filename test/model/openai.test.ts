import { afterEach, describe, expect, it } from "vitest";
import { ConfigError } from "../../src/errors.ts";
import type { ModelRequest } from "../../src/model/model.ts";
import { type OpenaiOptions, openaiModel } from "../../src/model/openai.ts";
import { profileOf } from "../../src/model/profiles.ts";
import { type ServerScript, startModelServer } from "../helpers/model-server.ts";
import { completion, type RawResponse, startRawServer } from "../helpers/raw-server.ts";

const key = "sk-secret-0123456789";
const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

async function serve(script: ServerScript) {
  const server = await startModelServer(script);
  closers.push(server.close);
  return server;
}

async function serveRaw(answer: RawResponse | ((requestNumber: number) => RawResponse)) {
  const server = await startRawServer(typeof answer === "function" ? answer : () => answer);
  closers.push(server.close);
  return server;
}

const hello: ModelRequest = { model: "m", messages: [{ role: "user", content: "hello" }] };

function ask(url: string, request: Partial<ModelRequest> = {}, options: Partial<OpenaiOptions> = {}) {
  const model = openaiModel({ baseUrl: url, apiKey: key, ...options });
  return model.ask({ ...hello, ...request }, new AbortController().signal);
}

describe("a request", () => {
  it.each([
    ["m", "http://localhost:8000/v1", ["\nObservation:"]],
    ["openai/gpt-4o", "https://openrouter.ai/api/v1", ["\nObservation:"]],
    ["o3-mini", "https://api.openai.com/v1", undefined],
    ["openai/gpt-5-nano", "https://openrouter.ai/api/v1", undefined],
  ])("carries stop words unless the model refuses them: %s of %s", async (model, baseUrl, stop) => {
    const server = await serve(() => ({ content: "hi" }));
    await ask(server.url, { model, stop: ["\nObservation:"] }, { profile: profileOf(baseUrl) });
    expect(server.requests.map((request) => request.stop)).toEqual([stop]);
  });

  it("carries no stop words to a server that takes none", async () => {
    const server = await serve(() => ({ content: "hi" }));
    const profile = { ...profileOf(server.url), allowsStop: false };
    await ask(server.url, { stop: ["\nObservation:"] }, { profile });
    expect(server.requests[0]).not.toHaveProperty("stop");
  });

  it("carries model, messages, tools and the key, and its reply comes back with calls and usage", async () => {
    const server = await serve(() => ({
      toolCalls: [
        { name: "bash", arguments: { command: "ls" }, id: "a" },
        { name: "bash", arguments: { command: "pwd" }, id: "b" },
      ],
      usage: { prompt_tokens: 11, completion_tokens: 7 },
    }));
    const tools = [{ name: "bash", description: "runs", parameters: { type: "object" } }];
    const reply = await ask(server.url, { tools });
    expect(server.requests).toEqual([
      {
        ...hello,
        tools: [{ type: "function", function: tools[0] }],
        stream: true,
        stream_options: { include_usage: true },
      },
    ]);
    expect(reply.message.tool_calls?.map(({ id, function: { arguments: text } }) => [id, text])).toEqual([
      ["a", '{"command":"ls"}'],
      ["b", '{"command":"pwd"}'],
    ]);
    expect(reply.finishReason).toBe("tool_calls");
    expect(reply.usage).toEqual({
      promptTokens: 11,
      completionTokens: 7,
      cachedTokens: null,
      reasoningTokens: null,
    });
    expect(reply.responseId).toMatch(/\w/);
  });

  it("never carries an empty list of tools", async () => {
    const server = await serve(() => ({ content: "hi" }));
    await ask(server.url, { tools: [] });
    expect(server.requests[0]).not.toHaveProperty("tools");
  });

  it("names the output limit as the profile says", async () => {
    const server = await serve(() => ({ content: "hi" }));
    await ask(server.url, { maxOutputTokens: 10 });
    await ask(server.url, { maxOutputTokens: 10 }, { profile: profileOf("https://api.openai.com/v1") });
    expect(server.requests[0]).toMatchObject({ max_tokens: 10 });
    expect(server.requests[1]).toMatchObject({ max_completion_tokens: 10 });
    expect(server.requests[1]).not.toHaveProperty("max_tokens");
  });

  it("sends the key as a bearer token, and no authorization where there is none", async () => {
    const server = await serveRaw({ body: completion({ role: "assistant", content: "hi" }) });
    await ask(server.url);
    await ask(server.url, {}, { apiKey: null });
    await ask(server.url, {}, { apiKey: ` ${key}\n` });
    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual([
      `Bearer ${key}`,
      undefined,
      `Bearer ${key}`,
    ]);
  });

  it.each(["", "api.openai.com/v1", "file:///etc/passwd", "http://me:pass@localhost/v1"])(
    "is refused as configuration with base URL %j, without repeating it",
    (baseUrl) => {
      expect(() => openaiModel({ baseUrl, apiKey: key })).toThrow(ConfigError);
      expect(() => openaiModel({ baseUrl, apiKey: key })).not.toThrow(/me:pass/);
    },
  );

  it("is refused as configuration with a key that no header can hold, without repeating it", () => {
    const create = () => openaiModel({ baseUrl: "http://localhost/v1", apiKey: "sk-…abc" });
    expect(create).toThrow(ConfigError);
    expect(create).not.toThrow(/abc/);
  });
});

describe("a reply", () => {
  it("comes back member for member", async () => {
    const message = {
      role: "assistant",
      content: null,
      reasoning_content: "think-é-🔍",
      annotations: [],
      vendor: { nested: [1, null] },
      tool_calls: [
        {
          id: "g1",
          type: "function",
          function: { name: "bash", arguments: '{ "command" : "ls" }' },
          extra_content: { google: { thought_signature: "U0lHLTE=" } },
        },
      ],
    };
    const server = await serveRaw({ body: completion(message, "stop") });
    const reply = await ask(server.url);
    expect(JSON.stringify(reply.message)).toBe(JSON.stringify(message));
  });

  it("gets the role that a server left out", async () => {
    const server = await serveRaw({ body: completion({ content: "hi" }, null) });
    expect(await ask(server.url)).toMatchObject({
      message: { role: "assistant", content: "hi" },
      finishReason: null,
      usage: { promptTokens: null, completionTokens: null, cachedTokens: null, reasoningTokens: null },
    });
  });

  it("is read whatever its content type says", async () => {
    const body = completion({ role: "assistant", content: "hi" });
    const server = await serveRaw({ body, headers: { "content-type": "text/plain" } });
    expect((await ask(server.url)).message.content).toBe("hi");
  });

  it.each([
    [
      { prompt_tokens: 5, completion_tokens: 0, prompt_tokens_details: { cached_tokens: 3 } },
      [5, 0, 3, null],
    ],
    [
      { prompt_tokens: 5, prompt_cache_hit_tokens: 4, completion_tokens_details: { reasoning_tokens: 2 } },
      [5, null, 4, 2],
    ],
    [{ prompt_tokens: "many", completion_tokens: -1, prompt_tokens_details: null }, [null, null, null, null]],
  ])("has its usage read from %j", async (usage, expected) => {
    const server = await serveRaw({ body: completion({ role: "assistant", content: "hi" }, "stop", usage) });
    const { promptTokens, completionTokens, cachedTokens, reasoningTokens } = (await ask(server.url)).usage;
    expect([promptTokens, completionTokens, cachedTokens, reasoningTokens]).toEqual(expected);
  });
});

describe("an abort", () => {
  it("rejects with the signal's reason while the server thinks", async () => {
    const controller = new AbortController();
    const reason = new Error("the run was cancelled");
    const server = await serve(() => {
      controller.abort(reason);
      return { content: "too late", delayMs: 50 };
    });
    const model = openaiModel({ baseUrl: server.url, apiKey: key });
    await expect(model.ask(hello, controller.signal)).rejects.toBe(reason);
  });

  it("that came before sends nothing", async () => {
    const reason = new Error("stop");
    const server = await serve(() => ({ content: "hi" }));
    const model = openaiModel({ baseUrl: server.url, apiKey: key });
    await expect(model.ask(hello, AbortSignal.abort(reason))).rejects.toBe(reason);
    expect(server.requests).toHaveLength(0);
  });
});
