import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { ModelError } from "../../src/errors.ts";
import { timeoutsFor } from "../../src/model/deadline.ts";
import { openaiModel } from "../../src/model/openai.ts";
import { completion, events, type RawResponse, startRawServer } from "../helpers/raw-server.ts";

const key = "sk-secret-0123456789";
const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

async function serveRaw(answer: RawResponse | ((requestNumber: number) => RawResponse)) {
  const server = await startRawServer(typeof answer === "function" ? answer : () => answer);
  closers.push(server.close);
  return server;
}

function ask(url: string, { content = "hello", timeouts = {} } = {}) {
  const model = openaiModel({
    baseUrl: url,
    apiKey: key,
    timeouts: { requestTimeoutMs: 10_000, ...timeouts },
  });
  return model.ask({ model: "m", messages: [{ role: "user", content }] }, new AbortController().signal);
}

/** The error of a request that must fail. */
async function failure(asked: Promise<unknown>): Promise<ModelError> {
  const error = await asked.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(ModelError);
  return error as ModelError;
}

describe("a failure", () => {
  const error = (message: string, members: object = {}) => ({ error: { message, ...members } });
  const ok = completion({ role: "assistant", content: "hi" });
  const cases: [string, RawResponse, string][] = [
    ["408", { status: 408, body: error("slow") }, "retry"],
    ["409", { status: 409, body: error("busy") }, "retry"],
    ["429", { status: 429, body: error("rate", { code: "rate_limit_exceeded" }) }, "retry"],
    ["500 without a body", { status: 500, body: "" }, "retry"],
    ["502 with an HTML page", { status: 502, body: "<html>bad gateway</html>" }, "retry"],
    ["529", { status: 529, body: error("Overloaded", { type: "overloaded_error" }) }, "retry"],
    ["429 without quota", { status: 429, body: error("pay", { code: "insufficient_quota" }) }, "quota"],
    [
      "429 without quota, by type",
      { status: 429, body: error("pay", { type: "insufficient_quota" }) },
      "quota",
    ],
    ["402", { status: 402, body: error("Insufficient Balance") }, "quota"],
    ["401", { status: 401, body: error("no") }, "auth"],
    ["403", { status: 403, body: error("no") }, "auth"],
    ["400 by code", { status: 400, body: error("x", { code: "context_length_exceeded" }) }, "overflow"],
    [
      "400 by message",
      { status: 400, body: error("This model's maximum context length is 8192 tokens.") },
      "overflow",
    ],
    [
      "400 by Anthropic",
      { status: 400, body: error("prompt is too long: 210000 tokens > 200000 maximum") },
      "overflow",
    ],
    [
      "400 by Gemini, in a list",
      {
        status: 400,
        body: [error("The input token count (9) exceeds the maximum number of tokens allowed (8).")],
      },
      "overflow",
    ],
    [
      "400 by vLLM, without an error member",
      { status: 400, body: { object: "error", message: "maximum context length is 4" } },
      "overflow",
    ],
    [
      "500 by llama.cpp",
      { status: 500, body: error("the request exceeds the available context size") },
      "overflow",
    ],
    ["413", { status: 413, body: "too large" }, "overflow"],
    [
      "400 by Azure's filter",
      { status: 400, body: error("filtered", { code: "content_filter" }) },
      "refused",
    ],
    ["400 by DeepSeek's filter", { status: 400, body: error("Content Exists Risk") }, "refused"],
    ["403 by a filter", { status: 403, body: error("Your input was flagged", { code: 403 }) }, "refused"],
    [
      "400 by Gemini for a key",
      {
        status: 400,
        body: [
          { error: { code: 400, message: "API key not valid.", details: [{ reason: "API_KEY_INVALID" }] } },
        ],
      },
      "auth",
    ],
    [
      "400 by Anthropic without credit",
      { status: 400, body: error("Your credit balance is too low") },
      "quota",
    ],
    ["403 by Ark without money", { status: 403, body: error("x", { code: "AccountOverdueError" }) }, "quota"],
    [
      "429 by Kimi without money",
      { status: 429, body: error("x", { type: "exceeded_current_quota_error" }) },
      "quota",
    ],
    ["429 by GLM, too many", { status: 429, body: error("x", { code: "1302" }) }, "retry"],
    ["429 by GLM without money", { status: 429, body: error("x", { code: "1113" }) }, "quota"],
    ["400 by GLM, too long", { status: 400, body: error("x", { code: "1261" }) }, "overflow"],
    ["400 by GLM's filter", { status: 400, body: error("x", { code: "1301" }) }, "refused"],
    [
      "429 by Gemini for the day",
      {
        status: 429,
        body: error("x", {
          status: "RESOURCE_EXHAUSTED",
          details: [{ violations: [{ quotaId: "GenerateRequestsPerDayPerProjectPerModel" }] }],
        }),
      },
      "quota",
    ],
    [
      "429 for a request beyond every limit",
      { status: 429, body: error("Request too large for gpt-4o") },
      "overflow",
    ],
    [
      "400 by a router, with the provider's own in a text",
      {
        status: 400,
        body: error("Provider returned error", {
          code: 400,
          metadata: { raw: JSON.stringify(error("prompt is too long: 9 tokens")) },
        }),
      },
      "overflow",
    ],
    ["307", { status: 307, headers: { location: "https://elsewhere.example" }, body: "" }, "invalid"],
    ["200 with an invalid request", { body: error("x", { type: "invalid_request_error" }) }, "invalid"],
    ["200 with a failed message and nothing else", { body: { message: "upstream failed" } }, "retry"],
    ["400", { status: 400, body: error("bad tool schema") }, "invalid"],
    ["404", { status: 404, body: error("no such model") }, "invalid"],
    [
      "422 with details",
      { status: 422, body: { detail: [{ msg: "extra fields not permitted" }] } },
      "invalid",
    ],
    ["200 with an error", { body: error("upstream down") }, "retry"],
    ["200 with an error of text", { body: { error: "model is loading" } }, "retry"],
    ["200 with an error of status 400", { body: error("bad", { code: 400 }) }, "invalid"],
    ["200 with an error by code", { body: error("x", { code: "context_length_exceeded" }) }, "overflow"],
    [
      "200 with an error in the choice",
      { body: { choices: [{ error: { code: 502, message: "x" } }] } },
      "retry",
    ],
    ["200 with an HTML page", { body: "<!DOCTYPE html><html></html>" }, "invalid"],
    ["403 with an HTML page", { status: 403, body: "<html>blocked</html>" }, "auth"],
    ["503 with an HTML page", { status: 503, body: "<html>soon</html>" }, "retry"],
    ["200 with text", { body: "starting up" }, "retry"],
    ["200 without a body", { body: "" }, "retry"],
    ["200 without choices", { body: { ...ok, choices: [] } }, "retry"],
    ["200 with null choices", { body: { ...ok, choices: null } }, "retry"],
    ["200 without a message", { body: { choices: [{ index: 0 }] } }, "retry"],
    ["a body of half the JSON", { body: JSON.stringify(ok).slice(0, 60) }, "retry"],
    ["a body that is cut off", { body: ok, cutAfter: 40 }, "retry"],
  ];

  it.each(cases)("%s is of kind %3$s", async (_, response, kind) => {
    const server = await serveRaw(response);
    expect((await failure(ask(server.url))).kind).toBe(kind);
    expect(server.requests).toHaveLength(1);
  });

  it("is not classified by what the conversation says", async () => {
    const server = await serveRaw({ status: 400, body: error("bad tool schema") });
    const content = "maximum context length insufficient_quota content_filter";
    expect((await failure(ask(server.url, { content }))).kind).toBe("invalid");
  });

  it("is not classified by what the server repeats of the conversation", async () => {
    const input = "maximum context length, does not support tools, stream_options";
    const detail = [{ loc: ["body", "messages"], msg: "Field required", input: [{ content: input }] }];
    const bodies = [
      { detail },
      { message: { detail } },
      error(`${"validation of the request failed; ".repeat(10)}${input}`),
    ];
    for (const body of bodies) {
      const server = await serveRaw({ status: 400, body });
      const { kind, unsupported, message } = await failure(ask(server.url));
      expect([kind, unsupported]).toEqual(["invalid", undefined]);
      if (body !== bodies[2]) expect(message).not.toContain("context length");
      expect(server.requests).toHaveLength(1);
    }
  });

  it.each([
    [400, "registry.ollama.ai/library/gemma:2b does not support tools"],
    [400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'],
    [404, "No endpoints found that support tool use. To learn more about provider routing, visit the docs"],
    [500, "tools param requires --jinja flag"],
    [400, "`tool calling` is not supported with this model"],
  ])("of status %i says that tools are not supported: %s", async (status, said) => {
    const server = await serveRaw({ status, body: error(said) });
    const { kind, unsupported, mayBeBilled } = await failure(ask(server.url));
    expect([kind, unsupported, mayBeBilled]).toEqual(["invalid", "tools", false]);
  });

  it.each<[string, RawResponse, boolean]>([
    ["429", { status: 429, body: error("x") }, false],
    ["500", { status: 500, body: error("x") }, false],
    ["504", { status: 504, body: error("x") }, true],
    ["a cut body", { body: ok, cutAfter: 40 }, true],
    ["half a body", { body: JSON.stringify(ok).slice(0, 60) }, true],
    ["no choice", { body: { ...ok, choices: [] } }, true],
    ["an error with status 200", { body: error("x", { code: 429 }) }, false],
  ])("with %s says whether it may be billed", async (_, response, mayBeBilled) => {
    const server = await serveRaw(response);
    expect((await failure(ask(server.url))).mayBeBilled).toBe(mayBeBilled);
  });

  it.each([
    [error("no such\n  parameter")],
    [{ error: "no such parameter" }],
    [[error("no such parameter")]],
    [{ object: "error", message: "no such parameter" }],
    [{ detail: "no such parameter" }],
    ["no such parameter"],
  ])("says what the server said, in whatever form: %j", async (body) => {
    const server = await serveRaw({ status: 400, body });
    expect((await failure(ask(server.url))).message).toBe("the model server answered 400: no such parameter");
  });

  it("says where a base URL may be wrong", async () => {
    const missing = await serveRaw({ status: 404, body: "<!doctype html><title>nothing here</title>" });
    expect((await failure(ask(missing.url))).message).toBe(
      "the model server answered 404: an HTML page (nothing here) (check the base URL and the name of the model)",
    );
    const page = `<html><style>b { color: red }</style><title>Sign in</title><p>${"Welcome! ".repeat(50)}</html>`;
    const website = await serveRaw({ body: page });
    expect((await failure(ask(`${website.url}?token=secret`))).message).toMatch(
      /^expected a chat completion from http:.*\/v1, got an HTML page \(Sign in Welcome! .{60,70}…\) \(check OPENAI_BASE_URL\)$/,
    );
  });

  it.each([401, 403])("of status %i says which key for which service", async (status) => {
    const server = await serveRaw({ status, body: error("no such key") });
    expect((await failure(ask(server.url))).message).toBe(
      `the model server answered ${status}: no such key (check OPENAI_API_KEY for ${server.url})`,
    );
  });

  it.each([
    ["seconds", { "retry-after": "7" }, 7_000, 7_000],
    ["milliseconds", { "retry-after-ms": "1500", "retry-after": "9" }, 1_500, 1_500],
    ["a date", { "retry-after": new Date(Date.now() + 90_000).toUTCString() }, 60_000, 90_000],
    ["a date gone by", { "retry-after": "Wed, 21 Oct 2015 07:28:00 GMT" }, 0, 0],
  ])("keeps a wait asked for in %s", async (_, headers, least, most) => {
    const server = await serveRaw({ status: 429, headers, body: error("rate") });
    const { retryAfterMs } = await failure(ask(server.url));
    expect(retryAfterMs).toBeGreaterThanOrEqual(least);
    expect(retryAfterMs).toBeLessThanOrEqual(most);
  });

  it.each([
    ["Google", error("x", { details: [{ retryDelay: "34.5s" }] }), 34_500, 34_500],
    [
      "a router",
      error("x", { metadata: { headers: { "X-RateLimit-Reset": String(Date.now() + 90_000) } } }),
      60_000,
      90_000,
    ],
  ])("keeps a wait that the body of %s asks for", async (_, body, least, most) => {
    const server = await serveRaw({ status: 429, body });
    const { retryAfterMs } = await failure(ask(server.url));
    expect(retryAfterMs).toBeGreaterThanOrEqual(least);
    expect(retryAfterMs).toBeLessThanOrEqual(most);
  });

  it("has no wait where the header is nonsense", async () => {
    const server = await serveRaw({ status: 503, headers: { "retry-after": "soon" }, body: error("x") });
    expect((await failure(ask(server.url))).retryAfterMs).toBeUndefined();
  });

  it("of the network is of kind retry and names the server", async () => {
    const server = await serveRaw({ body: ok });
    await server.close();
    const { kind, message, mayBeBilled } = await failure(ask(server.url));
    expect(kind).toBe("retry");
    expect(message).toContain(`cannot reach the model server at ${new URL(server.url).origin}`);
    expect(message).toContain("ECONNREFUSED");
    expect(mayBeBilled).toBe(false);
  });

  it("never repeats the key, wherever the server put it", async () => {
    const long = `${"x".repeat(490)} ${key}`;
    const bodies = [error(`Incorrect API key: ${key}`), { detail: { got: key } }, key, error(long)];
    for (const status of [200, 400, 401, 500]) {
      for (const body of bodies) {
        const server = await serveRaw({ status, body });
        const thrown = await failure(ask(server.url));
        expect(JSON.stringify([thrown.message, thrown.stack, thrown.cause, { ...thrown }])).not.toContain(
          "sk-secret",
        );
      }
    }
  });
});

describe("a time-out", () => {
  const begun = events({ choices: [{ index: 0, delta: { content: "hi" } }] });
  const cases: [string, RawResponse, object, RegExp][] = [
    [
      "first token",
      { hang: true },
      { firstTokenTimeoutMs: 150 },
      /^no first token from .* 150 ms \(firstTokenTimeoutMs\)$/,
    ],
    [
      "first token, where only comments come",
      {
        pieces: [
          ": wait\n\n",
          ...events({ choices: [{ index: 0, delta: { role: "assistant", content: "" } }] }),
        ],
        hang: true,
      },
      { firstTokenTimeoutMs: 150 },
      /\(firstTokenTimeoutMs\)$/,
    ],
    [
      "silence",
      { pieces: begun, hang: true },
      { silenceTimeoutMs: 150 },
      /^nothing more of the reply .* \(silenceTimeoutMs\)$/,
    ],
    [
      "whole reply",
      { pieces: begun, hang: true },
      { requestTimeoutMs: 150 },
      /^no complete reply from .* \(requestTimeoutMs\)$/,
    ],
    [
      "rest of a reply in one piece",
      { headers: { "content-length": "999" }, body: "{" },
      { silenceTimeoutMs: 150 },
      /\(silenceTimeoutMs\)$/,
    ],
  ];

  it.each(cases)(
    "for the %s is of kind retry, may be billed and names its setting",
    async (_, response, timeouts, message) => {
      const server = await serveRaw(response);
      const error = await failure(ask(server.url, { timeouts }));
      expect(error.message).toMatch(message);
      expect(error.message).toContain(server.url);
      expect([error.kind, error.mayBeBilled]).toEqual(["retry", true]);
    },
  );

  it("for silence begins anew with every piece", async () => {
    const pieces = events(
      ...Array.from({ length: 25 }, () => ({ choices: [{ index: 0, delta: { content: "x" } }] })),
      "[DONE]",
    );
    const server = await serveRaw({ pieces, everyMs: 100 });
    const { message } = await ask(server.url, { timeouts: { silenceTimeoutMs: 2_000 } });
    expect(message.content).toBe("x".repeat(25));
  });

  it("for the connection is over once it stands", async () => {
    const server = await serveRaw({ hang: true });
    const timeouts = { connectTimeoutMs: 500, firstTokenTimeoutMs: 800 };
    expect((await failure(ask(server.url, { timeouts }))).message).toContain("firstTokenTimeoutMs");
  });

  it("for the connection is not billed: nothing was sent", async () => {
    const silent = createServer();
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    const { port } = silent.address() as AddressInfo;
    const asked = ask(`https://127.0.0.1:${port}/v1`, { timeouts: { connectTimeoutMs: 150 } });
    const error = await failure(asked);
    silent.close();
    expect(error.message).toMatch(/^no connection to .* within 150 ms \(connectTimeoutMs\)$/);
    expect([error.kind, error.mayBeBilled]).toEqual(["retry", false]);
  });

  it("for the first token is long enough for a local server to load its model", () => {
    expect(timeoutsFor("http://localhost:11434/v1").firstTokenTimeoutMs).toBe(900_000);
    expect(timeoutsFor("https://api.openai.com/v1").firstTokenTimeoutMs).toBe(300_000);
    const set = { firstTokenTimeoutMs: 5 };
    expect(timeoutsFor("http://localhost:11434/v1", set).firstTokenTimeoutMs).toBe(5);
  });
});
