import { expect, it, onTestFinished } from "vitest";
import type { ModelRequest } from "../../src/model/model.ts";
import { type OpenaiOptions, openaiModel } from "../../src/model/openai.ts";
import { profileOf } from "../../src/model/profiles.ts";
import { completion, type RawResponse, startRawServer } from "../helpers/raw-server.ts";

const parameters: NonNullable<ModelRequest["parameters"]> = {
  temperature: 0,
  seed: 7,
  reasoningEffort: "low",
  extraBody: { top_p: 0.5, tool_choice: "auto" },
  extraHeaders: { "X-Run": "nightly" },
};
const tools = [{ name: "bash", description: "runs", parameters: { type: "object" } }];

async function ask(
  request: Partial<ModelRequest>,
  options: Partial<OpenaiOptions> = {},
  answer: RawResponse = { body: completion({ role: "assistant", content: "hi" }) },
) {
  const server = await startRawServer(() => answer);
  onTestFinished(() => server.close());
  const model = openaiModel({ baseUrl: server.url, apiKey: "sk-0123456789", ...options });
  const whole: ModelRequest = { model: "m", messages: [{ role: "user", content: "x" }], ...request };
  const failure = await model.ask(whole, new AbortController().signal).then(
    () => "",
    (error: Error) => error.message,
  );
  return { ...server.requests[0], failure };
}

it("parameters are members of the body, and headers", async () => {
  const { body, headers } = await ask({ parameters, tools, maxOutputTokens: 5 });
  expect(body).toMatchObject({
    temperature: 0,
    seed: 7,
    reasoning_effort: "low",
    top_p: 0.5,
    tool_choice: "auto",
    max_tokens: 5,
  });
  expect(headers).toMatchObject({ "x-run": "nightly", authorization: "Bearer sk-0123456789" });
});

it("without parameters nothing is sent beside the request itself", async () => {
  const { body } = await ask({});
  for (const name of ["temperature", "seed", "reasoning_effort"]) expect(body).not.toHaveProperty(name);
});

it("no extra member takes the place of one of ours", async () => {
  const { body } = await ask({
    tools,
    parameters: { extraBody: { model: "other", tools: [], messages: [] } },
  });
  expect(body).toMatchObject({ model: "m", messages: [{ content: "x" }], tools: [{ type: "function" }] });
});

it("what speaks of tools is left out where none are offered, as in a summary", async () => {
  const { body } = await ask({ parameters });
  expect(body).toMatchObject({ top_p: 0.5 });
  expect(body).not.toHaveProperty("tool_choice");
});

it("a seed has another name where the provider gives it one", async () => {
  const { body } = await ask({ parameters }, { profile: profileOf("https://api.mistral.ai/v1") });
  expect(body).toMatchObject({ random_seed: 7 });
  expect(body).not.toHaveProperty("seed");
});

it("configured headers go with every request, and no error repeats their values", async () => {
  const secret = "gateway-secret-1";
  const { headers, failure } = await ask(
    {},
    { headers: { "X-Gateway": `Basic ${secret}` } },
    { status: 400, body: { error: { message: `no such user: ${secret}` } } },
  );
  expect(headers).toMatchObject({ "x-gateway": `Basic ${secret}` });
  expect(failure).toContain("no such user");
  expect(failure).not.toContain(secret);
});
