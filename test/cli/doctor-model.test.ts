import { expect, onTestFinished, test } from "vitest";
import { commandLine } from "../helpers/command-line.ts";
import { startLocalServer } from "../helpers/local-server.ts";
import { completion, type RawResponse, startRawServer } from "../helpers/raw-server.ts";

const key = "sk-secret-0123456789";
const usage = { prompt_tokens: 40, completion_tokens: 9 };

const calling = (input: string, name = "bash") => ({
  body: completion(
    {
      role: "assistant",
      content: null,
      tool_calls: [{ id: "a", type: "function", function: { name, arguments: input } }],
    },
    "tool_calls",
    usage,
  ),
});
const right = calling('{"command":"echo ratchet"}');
const saying = (content: string, finishReason = "stop") => ({
  body: completion({ role: "assistant", content }, finishReason),
});
const refusing = (status: number, message: string) => ({ status, body: { error: { message } } });

/** What doctor says of a server that answers so, by name; `ok` first. */
async function examine(answers: RawResponse[], config: object = {}) {
  const server = await startRawServer((n) => answers[n - 1] ?? answers.at(-1) ?? {});
  onTestFinished(() => server.close());
  const files = { "pawl.config.json": JSON.stringify(config) };
  const env = { OPENAI_BASE_URL: server.url, OPENAI_MODEL: "m", OPENAI_API_KEY: key };
  const { pawl } = commandLine({ files, env });
  const { stdout, stderr, code } = await pawl(["doctor", "--model", "--json"]);
  expect(stdout + stderr).not.toContain(key);
  const { ok, checks } = JSON.parse(stdout) as {
    ok: boolean;
    checks: { name: string; ok: boolean; detail: string }[];
  };
  expect({ ok, code }).toEqual(ok ? { ok: true, code: 0 } : { ok: false, code: 1 });
  const of = Object.fromEntries(
    checks.map((check) => [check.name, `${check.ok ? "ok" : "bad"}: ${check.detail}`]),
  );
  return {
    server,
    key: of.key,
    model: of.model,
    toolUse: of["tool use"],
    window: of.window,
    text: () => pawl(["doctor", "--model"]),
  };
}

const unknown = "bad: not known";

test("one request with a tool says that key, model, tools and window work", async () => {
  const config = { contextTokens: 16_000, modelParameters: { seed: 3 } };
  const { server, text, ...found } = await examine([right], config);
  expect(found).toMatchObject({
    key: "ok: accepted",
    model: expect.stringMatching(new RegExp(`^ok: m at ${server.url} answered in [\\d.]+ m?s$`)),
    toolUse: "ok: called as asked (native)",
    window: "ok: 16000 tokens (set by contextTokens), 4000 of it for a reply; it counts tokens",
  });
  expect(server.requests).toHaveLength(1);
  expect(server.requests[0]?.body).toMatchObject({ model: "m", seed: 3, max_tokens: 2000 });
  expect((await text()).stdout).toMatch(/^ok {7}tool use called as asked \(native\)$/m);
});

test("a refused key is the key's problem, and nothing is known of the rest", async () => {
  const { server, text, ...found } = await examine([refusing(401, `no such key: ${key}`)]);
  expect(found).toMatchObject({
    key: expect.stringMatching(/^bad: .*401.*check OPENAI_API_KEY/),
    model: unknown,
  });
  expect(found).toMatchObject({ toolUse: unknown, window: unknown });
  const people = await text();
  expect(people.code).toBe(1);
  expect(people.stdout).toMatch(/^PROBLEM +key +the model server answered 401/m);
  expect(people.stdout).not.toContain(key);
  expect(server.requests).toHaveLength(2);
});

test.each<[string, RawResponse, Record<string, RegExp>]>([
  ["unknown model", refusing(404, "no such model"), { key: /^ok/, model: /^bad: .*404.*name of the model/ }],
  ["quota", refusing(402, "no credit"), { key: /^ok/, model: /^bad: .*402: no credit/ }],
  ["busy", refusing(429, "slow down"), { key: /^bad: not known/, model: /^bad: .*429/ }],
  ["overflow", refusing(413, "too long"), { key: /^ok/, window: /^bad: .*413/, model: /^bad: not known/ }],
  ["web page", { body: "<html><h1>Sign in</h1></html>" }, { model: /^bad: .*an HTML page \(Sign in\)/ }],
  [
    "text",
    saying("ratchet"),
    { model: /^ok/, toolUse: /^bad: answered without calling the tool \(ratchet\): / },
  ],
  ["cut", saying("I think", "length"), { toolUse: /^bad: the reply was cut off .* 2000 tokens$/ }],
  [
    "other word",
    calling('{"command":"x"}'),
    { toolUse: /^bad: called, but not as asked: bash \{"command":"x"\}$/ },
  ],
  ["other tool", calling("{}", "y"), { toolUse: /^bad: called, but not as asked: y \{\}$/ }],
  ["no count", saying("x"), { window: /it counts no tokens, so pawl estimates$/ }],
])("doctor tells what does not work: %s", async (_name, answer, expected) => {
  const found = await examine([answer]);
  for (const [name, pattern] of Object.entries(expected)) expect(Reflect.get(found, name)).toMatch(pattern);
});

test("a model that is refused with a tool is asked once more without, and the tool is the problem", async () => {
  const answers = [refusing(400, "m does not support tools"), saying("ratchet")];
  const { server, ...found } = await examine(answers, { protocol: "native" });
  expect(found).toMatchObject({
    key: "ok: accepted",
    model: expect.stringMatching(/^ok/),
    toolUse: expect.stringMatching(/^bad: refused \(.*does not support tools\), while .* without a tool/),
  });
  expect(server.requests).toHaveLength(2);
});

test("where no protocol is set, a model that takes no tools is no problem: runs are in ReAct", async () => {
  const found = await examine([refusing(400, "m does not support tools"), saying("ratchet")]);
  expect(found.toolUse).toMatch(/^ok: refused \(.*does not support tools\): runs are in ReAct/);
});

test("the window is the one that a server of one's own names", async () => {
  const server = await startLocalServer({
    "GET /v1/models": () => ({ body: { data: [{ id: "m", max_model_len: 20_000 }] } }),
    "POST /v1/chat/completions": () => right,
  });
  const env = { OPENAI_BASE_URL: server.url, OPENAI_MODEL: "m", PAWL_PROVIDER: "vllm" };
  const { pawl } = commandLine({ env });
  const { stdout } = await pawl(["doctor", "--model"]);
  expect(stdout).toMatch(/^ok +window +20000 tokens \(as the server says\), 5000 of it for a reply/m);
});

test("a text protocol is explained to the model, and its reply read accordingly", async () => {
  const action = "Thought: I run it.\nAction: bash\nAction Input: echo ratchet";
  const { server, ...found } = await examine([saying(action)], { protocol: "react" });
  expect(found.toolUse).toBe("ok: called as asked (react)");
  const [sent] = server.requests;
  expect(sent?.body).not.toHaveProperty("tools");
  expect(sent?.body).toMatchObject({
    messages: [{ role: "system", content: expect.stringContaining("Action Input:") }, { role: "user" }],
  });
});

test("a server that does not answer in time, or is not there, is told with what to do", async () => {
  const { model } = await examine([{ hang: true }], { requestTimeoutMs: 300 });
  expect(model).toMatch(/^bad: no .* within 300 ms/);
  const { pawl } = commandLine({ env: { OPENAI_BASE_URL: "http://127.0.0.1:1/v1", OPENAI_MODEL: "m" } });
  const gone = await pawl(["doctor", "--model"]);
  expect(gone.code).toBe(1);
  expect(gone.stdout).toMatch(/^PROBLEM +model +cannot reach the model server at http:\/\/127\.0\.0\.1:1/m);
});

test("without a key nothing is asked; a model of one's own needs none", async () => {
  const none = await commandLine().pawl(["doctor", "--model"]);
  expect(none.stdout).toMatch(/^PROBLEM +model +expected a key in OPENAI_API_KEY/m);
  const files = {
    "own.mjs": `import { call, scriptedModel } from "pawl";
export default scriptedModel(() => call("bash", { command: "echo ratchet" }));`,
    "pawl.config.json": '{ "modelModule": "./own.mjs" }',
  };
  const own = await commandLine({ files }).pawl(["doctor", "--model"]);
  expect(own.stdout).toMatch(/^ok +key +none is needed$/m);
  expect(own.stdout).toMatch(/^ok +tool use called as asked \(native\)$/m);
  expect(own.code).toBe(0);
});
