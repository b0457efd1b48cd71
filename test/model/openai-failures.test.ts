import { afterEach, describe, expect, it } from "vitest";
import { ModelError } from "../../src/errors.ts";
import { openaiModel } from "../../src/model/openai.ts";
import { completion, type RawResponse, startRawServer } from "../helpers/raw-server.ts";

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

function ask(url: string, { content = "hello", timeoutMs = 10_000 } = {}) {
  const model = openaiModel({ baseUrl: url, apiKey: key, timeoutMs });
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

  it("has no wait where the header is nonsense", async () => {
    const server = await serveRaw({ status: 503, headers: { "retry-after": "soon" }, body: error("x") });
    expect((await failure(ask(server.url))).retryAfterMs).toBeUndefined();
  });

  it("of the network is of kind retry and names the server", async () => {
    const server = await serveRaw({ body: ok });
    await server.close();
    const { kind, message } = await failure(ask(server.url));
    expect(kind).toBe("retry");
    expect(message).toContain(`cannot reach the model server at ${new URL(server.url).origin}`);
    expect(message).toContain("ECONNREFUSED");
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

  it("by time-out is of kind retry, also when only the body is missing", async () => {
    const answers: RawResponse[] = [{ hang: true }, { headers: { "content-length": "999" }, body: "{" }];
    const server = await serveRaw((requestNumber) => answers[requestNumber - 1] ?? { hang: true });
    for (const _ of answers) {
      const { kind, message } = await failure(ask(server.url, { timeoutMs: 150 }));
      expect(kind).toBe("retry");
      expect(message).toBe(`no complete reply from ${server.url} within 150 ms (requestTimeoutMs)`);
    }
  });
});
