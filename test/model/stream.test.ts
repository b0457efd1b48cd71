import { afterEach, describe, expect, it } from "vitest";
import { ModelError } from "../../src/errors.ts";
import type { Delta } from "../../src/model/model.ts";
import { type OpenaiOptions, openaiModel } from "../../src/model/openai.ts";
import { profileOf } from "../../src/model/profiles.ts";
import { completion, events, type RawResponse, startRawServer } from "../helpers/raw-server.ts";

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

async function serve(answer: RawResponse | ((requestNumber: number) => RawResponse)) {
  const server = await startRawServer(typeof answer === "function" ? answer : () => answer);
  closers.push(server.close);
  return server;
}

function ask(url: string, options: Partial<OpenaiOptions> = {}, onDelta?: (delta: Delta) => void) {
  const model = openaiModel({ baseUrl: url, apiKey: null, ...options });
  const messages = [{ role: "user" as const, content: "hello" }];
  const signal = new AbortController().signal;
  return model.ask({ model: "m", messages, ...(onDelta && { onDelta }) }, signal);
}

async function askFor(pieces: string[], options: Partial<OpenaiOptions> = {}) {
  return ask((await serve({ pieces })).url, options);
}

async function failure(asked: Promise<unknown>): Promise<ModelError> {
  const error = await asked.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(ModelError);
  return error as ModelError;
}

const delta = (members: object, finish_reason: string | null = null) => ({
  id: "cmpl-1",
  choices: [{ index: 0, delta: members, finish_reason }],
});
const usage = { prompt_tokens: 9, completion_tokens: 4 };
const counts = { promptTokens: 9, completionTokens: 4, cachedTokens: null, reasoningTokens: null };

describe("a stream", () => {
  it("gives the reply that would have come in one piece, member for member", async () => {
    const signature = { google: { thought_signature: "U0lHLTE=" } };
    const pieces = events(
      delta({ role: "assistant", content: null, annotations: [{ url: "a" }] }),
      delta({ reasoning_content: "ha" }),
      delta({ reasoning_content: "ha", annotations: [{ url: "b" }] }),
      delta({ content: "o" }),
      delta({ content: "o", vendor: { nested: "x", flag: false, list: [1] } }),
      delta({ vendor: { nested: "y", flag: true, list: [2] }, refusal: null }),
      delta({ reasoning_details: [{ index: 0, type: "reasoning.text", format: "v1", text: "wh" }] }),
      delta({ reasoning_details: [{ index: 0, type: "reasoning.text", format: "v1", text: "y" }] }),
      delta({ reasoning_details: [{ index: 0, type: "reasoning.encrypted", data: "enc" }] }),
      delta({
        tool_calls: [
          {
            index: 0,
            id: "a",
            type: "function",
            function: { name: "bash", arguments: "" },
            extra_content: signature,
          },
        ],
      }),
      delta({ tool_calls: [{ index: 0, function: { arguments: '{"command":' } }] }),
      delta({
        tool_calls: [{ index: 1, id: "b", type: "function", function: { name: "ls", arguments: "{}" } }],
      }),
      delta({ tool_calls: [{ index: 0, function: { arguments: '"aa"}' } }] }),
      delta({}, "tool_calls"),
      { id: "cmpl-1", choices: [], usage },
      "[DONE]",
    );
    expect(await askFor(pieces)).toEqual({
      message: {
        role: "assistant",
        content: "oo",
        annotations: [{ url: "a" }, { url: "b" }],
        reasoning_content: "haha",
        vendor: { nested: "xy", flag: true, list: [1, 2] },
        refusal: null,
        reasoning_details: [
          { index: 0, type: "reasoning.text", format: "v1", text: "why" },
          { index: 0, type: "reasoning.encrypted", data: "enc" },
        ],
        tool_calls: [
          {
            id: "a",
            type: "function",
            function: { name: "bash", arguments: '{"command":"aa"}' },
            extra_content: signature,
          },
          { id: "b", type: "function", function: { name: "ls", arguments: "{}" } },
        ],
      },
      finishReason: "tool_calls",
      usage: counts,
      responseId: "cmpl-1",
    });
  });

  it("joins the parts of a content that comes as a list, and the text behind them", async () => {
    const thinking = (text: string) => [{ type: "thinking", thinking: [{ type: "text", text }] }];
    const pieces = events(
      delta({ role: "assistant", content: "" }),
      delta({ content: thinking("pl") }),
      delta({ content: thinking("an") }),
      delta({ content: "it " }),
      delta({ content: "is 7" }, "stop"),
    );
    expect((await askFor(pieces)).message.content).toEqual([
      { type: "thinking", thinking: [{ type: "text", text: "plan" }] },
      { type: "text", text: "it is 7" },
    ]);
  });

  const call = (members: object, name?: string, text?: string) => ({
    tool_calls: [
      {
        ...members,
        function: { ...(name !== undefined && { name }), ...(text !== undefined && { arguments: text }) },
      },
    ],
  });
  it.each([
    ["no index", [call({ id: "a" }, "x", "{}"), call({ id: "b" }, "y", "{}")], ["a x {}", "b y {}"]],
    [
      "one index for all",
      [call({ index: 0, id: "a" }, "x", "{}"), call({ index: 0, id: "b" }, "y", "{}")],
      ["a x {}", "b y {}"],
    ],
    [
      "one index for all, and no arguments",
      [call({ index: 0, id: "a" }, "x", ""), call({ index: 0, id: "b" }, "y", "")],
      ["a x ", "b y "],
    ],
    [
      "neither index nor id",
      [call({}, "x", '{"a":'), call({}, undefined, "1}"), call({}, "x", "{}")],
      ['undefined x {"a":1}', "undefined x {}"],
    ],
    [
      "one index and empty ids",
      [call({ index: 0, id: "" }, "x", "{}"), call({ index: 0, id: "" }, "y", "{}")],
      [" x {}", " y {}"],
    ],
    [
      "an index in the first piece only",
      [call({ index: 0, id: "a" }, "x", '{"a"'), call({}, undefined, ":1}")],
      ['a x {"a":1}'],
    ],
    [
      "id and name in every piece",
      [call({ index: 0, id: "a" }, "x", '{"a"'), call({ index: 0, id: "a" }, "x", ":1}")],
      ['a x {"a":1}'],
    ],
    [
      "empty id and name in later pieces",
      [call({ index: 0, id: "a" }, "x", '{"a"'), call({ index: 0, id: "" }, "", ":1}")],
      ['a x {"a":1}'],
    ],
  ])("keeps calls apart that come with %s", async (_, deltas, expected) => {
    const pieces = events(...deltas.map((each) => delta(each)), delta({}, "tool_calls"), "[DONE]");
    const { message } = await askFor(pieces);
    expect(
      message.tool_calls?.map(({ id, function: called }) => `${id} ${called.name} ${called.arguments}`),
    ).toEqual(expected);
    expect(message.tool_calls?.some((each) => "index" in each)).toBe(false);
  });

  it.each([
    ["in the last chunk", [delta({ content: "hi" }, "stop"), { choices: [], usage }]],
    ["beside the last piece", [{ ...delta({ content: "hi" }, "stop"), usage }]],
    [
      "in every chunk",
      [
        { ...delta({ content: "hi" }), usage: { prompt_tokens: 1 } },
        { ...delta({}, "stop"), usage },
      ],
    ],
    ["where Groq puts them", [delta({ content: "hi" }, "stop"), { choices: [], x_groq: { usage } }]],
    [
      "in the choice",
      [delta({ content: "hi" }), { choices: [{ index: 0, delta: {}, finish_reason: "stop", usage }] }],
    ],
  ])("has its tokens counted %s", async (_, chunks) => {
    expect((await askFor(events(...chunks, "[DONE]"))).usage).toEqual(counts);
  });

  const text = events(delta({ content: "hé" }), delta({ content: "🔍" }, "stop"), "[DONE]").join("");
  it.each<[string, (string | Uint8Array)[]]>([
    ["cut between bytes of a letter", [...Buffer.from(text)].map((byte) => Uint8Array.of(byte))],
    ["with CRLF and comments", [`: keep alive\r\n\r\n${text.replaceAll("\n", "\r\n")}`]],
    ["with event names and ids", [`event: message\nid: 7\n${text}`]],
    ["without blanks and blank lines", [text.replaceAll("data: ", "data:").replaceAll("\n\n", "\n")]],
    ["without a line feed at the end", [text.trimEnd()]],
  ])("is understood %s", async (_, pieces) => {
    for (const type of ["text/event-stream", "application/json"]) {
      const server = await serve({ pieces, headers: { "content-type": type } });
      expect((await ask(server.url)).message.content).toBe("hé🔍");
    }
  });

  it("leaves its connection to later requests", async () => {
    const server = await serve({ pieces: events(delta({ content: "hi" }, "stop"), "[DONE]"), everyMs: 5 });
    const model = openaiModel({ baseUrl: server.url, apiKey: null });
    const request = { model: "m", messages: [{ role: "user" as const, content: "hello" }] };
    for (let n = 0; n < 10; n += 1) await model.ask(request, new AbortController().signal);
    // The next request may begin before the end of the last one has come.
    expect(server.connections()).toBeLessThanOrEqual(3);
  });

  it("is told piece by piece", async () => {
    const pieces = events(
      delta({ role: "assistant" }),
      delta({ reasoning: "hm" }),
      delta({ content: "hi" }),
      delta(call({ index: 0, id: "a" }, "bash", "{}"), "tool_calls"),
      "[DONE]",
    );
    const server = await serve({ pieces });
    const told: Delta[] = [];
    await ask(server.url, {}, (piece) => told.push(piece));
    expect(told).toEqual([
      { text: "", reasoning: "hm", call: "" },
      { text: "hi", reasoning: "", call: "" },
      { text: "", reasoning: "", call: "bash{}" },
    ]);
  });

  it("whose reason is said is whole, though the connection breaks or stays open behind it", async () => {
    const pieces = events(delta({ content: "hi" }, "stop"));
    for (const more of [{ cutAfter: 0 }, {}]) {
      const server = await serve({ pieces, ...more });
      expect((await ask(server.url)).message.content).toBe("hi");
    }
    const server = await serve({ pieces: [...pieces, ...events("[DONE]")], hang: true });
    expect((await ask(server.url)).message.content).toBe("hi");
  });

  it("cannot change the prototype of anything", async () => {
    const evil = '{"__proto__":{"polluted":1}}';
    const piece = `{"choices":[{"index":0,"delta":{"content":"hi","list":[${evil}],"a":${evil}}}]}`;
    const { message } = await askFor(events(piece, piece, delta({}, "stop"), "[DONE]"));
    expect(message).toMatchObject({ content: "hihi", list: [{}, {}] });
    const objects = [{}, message, ...(message.list as object[])];
    expect(objects.some((each) => "polluted" in each)).toBe(false);
  });
});

describe("a stream that fails", () => {
  const hi = delta({ content: "hi" });
  const cases: [string, RawResponse, string, string, boolean][] = [
    ["ends without a reason", { pieces: events(hi) }, "retry", "ended before the reply did", true],
    ["breaks off", { pieces: events(hi), cutAfter: 0 }, "retry", "the connection broke after", true],
    ["breaks off in the middle of a line", { pieces: ['data: {"choi'], cutAfter: 0 }, "retry", "broke", true],
    [
      "holds no JSON",
      { pieces: ["data: {oops\n\n"] },
      "retry",
      "expected a piece of a reply, got {oops",
      true,
    ],
    [
      "has no choice at all",
      { pieces: events({ choices: [] }, "[DONE]") },
      "retry",
      "without any choice",
      true,
    ],
    [
      "tells an error in the middle",
      { pieces: events(hi, { error: { message: "overloaded", code: 502 } }), hang: true },
      "retry",
      "502: overloaded",
      true,
    ],
    [
      "begins with an error",
      { pieces: events({ error: { message: "slow down", code: 429 } }) },
      "retry",
      "429",
      false,
    ],
    [
      "refuses the key",
      { pieces: events({ error: { message: "no", type: "invalid_api_key" } }) },
      "auth",
      "no",
      true,
    ],
    [
      "is vLLM's error",
      { pieces: events({ object: "error", message: "maximum context length is 4", code: 400 }) },
      "overflow",
      "400: maximum",
      false,
    ],
    [
      "names its event an error",
      { pieces: ['event:error\ndata:{"code":"InvalidParameter","message":"bad"}\n\n'] },
      "invalid",
      "bad",
      true,
    ],
    [
      "ends with an error as its reason",
      { pieces: events(delta({ content: "h" }, "error"), "[DONE]") },
      "retry",
      "error of the provider",
      true,
    ],
  ];

  it.each(cases)("because it %s is of kind %3$s", async (_, response, kind, said, mayBeBilled) => {
    const server = await serve(response);
    const error = await failure(ask(server.url));
    expect(error.message).toContain(said);
    expect([error.kind, error.mayBeBilled]).toEqual([kind, mayBeBilled]);
  });

  it("holds no more of an endless reply than the bound", async () => {
    const piece = events(delta({ content: "x".repeat(1_000_000) })).join("");
    const error = await failure(askFor(Array.from({ length: 70 }, () => piece)));
    expect(error.message).toMatch(/^the reply is longer than \d+ bytes$/);
  });
});

describe("a server that cannot stream", () => {
  const done = completion({ role: "assistant", content: "hi" });

  it("may answer in one piece", async () => {
    const server = await serve({ body: done });
    expect((await ask(server.url)).message.content).toBe("hi");
    expect(server.requests).toHaveLength(1);
  });

  it.each([
    ["unknown parameter: stream_options", { param: "stream_options" }, [true, true], [true, false]],
    [
      "Unsupported value: 'stream' does not support true with this model.",
      { param: "stream" },
      [true, undefined],
      [true, false],
    ],
    ["Streaming is not supported by this model", {}, [true, undefined], [true, false]],
  ])("is asked without it, then and later: %s", async (message, more, streams, options) => {
    const refusal = { status: 400, body: { error: { message, type: "invalid_request_error", ...more } } };
    const server = await serve((requestNumber) => (requestNumber === 1 ? refusal : { body: done }));
    const model = openaiModel({ baseUrl: server.url, apiKey: null });
    const request = { model: "m", messages: [{ role: "user" as const, content: "hello" }] };
    for (let n = 0; n < 2; n += 1) await model.ask(request, new AbortController().signal);
    const bodies = server.requests.map(({ body }) => body as { stream?: boolean; stream_options?: unknown });
    expect(bodies.map(({ stream }) => stream)).toEqual([...streams, streams[1]]);
    expect(bodies.map((body) => "stream_options" in body)).toEqual([...options, options[1]]);
  });

  it("is understood by the list of problems that Mistral sends", async () => {
    const detail = [
      {
        type: "extra_forbidden",
        loc: ["body", "stream_options", "include_usage"],
        msg: "Extra inputs are not permitted",
        input: true,
      },
    ];
    const refusal = {
      status: 422,
      body: { object: "error", message: { detail }, type: "invalid_request_error" },
    };
    const server = await serve((requestNumber) => (requestNumber === 1 ? refusal : { body: done }));
    expect((await ask(server.url)).message.content).toBe("hi");
  });

  it("is not asked to where the settings or its profile say so", async () => {
    const server = await serve({ body: done });
    await ask(server.url, { stream: false });
    await ask(server.url, { profile: profileOf(server.url, "mistral") });
    expect(server.requests.map(({ body }) => body)).toEqual([
      expect.not.objectContaining({ stream: true }),
      expect.objectContaining({ stream: true }),
    ]);
    expect(server.requests[1]?.body).not.toHaveProperty("stream_options");
  });
});
