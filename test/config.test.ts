import { totalmem } from "node:os";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { loadConfig } from "../src/config.ts";
import { ConfigError } from "../src/errors.ts";
import { temporaryFolder } from "./helpers/temporary-folder.ts";

const load = (cwd: string, env: NodeJS.ProcessEnv = {}, flags: Record<string, unknown> = {}) =>
  loadConfig({ cwd, env, flags });

async function refusal(promise: Promise<unknown>): Promise<string> {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(ConfigError);
  return String(error);
}

describe("order of settings", () => {
  it("without any setting the defaults hold", async () => {
    expect(await load(temporaryFolder())).toEqual({
      model: null,
      provider: null,
      baseUrl: null,
      apiKey: null,
      contextTokens: null,
      maxOutputTokens: null,
      timeouts: {},
      stream: true,
      modelParameters: {},
      modelModule: null,
      tools: [],
      systemPrompt: null,
      protocol: null,
      maxSteps: 100,
      timeLimitMs: null,
      prices: {},
      budgetUsd: null,
      budgetTokens: null,
      dayBudgetUsd: null,
      dayBudgetTokens: null,
      commandTimeoutMs: 120_000,
      commandSilenceMs: 300_000,
      commandLimits: {
        processes: 1_000,
        memoryBytes: Math.floor(totalmem() * 0.75),
        fileBytes: 10 * 1024 ** 3,
        cpus: null,
      },
      leaseMs: 60_000,
      minFreeBytes: null,
      queue: null,
      db: "embedded",
      logLevel: "info",
      concurrency: 4,
      keys: {},
      requestsPerMinute: null,
      tokensPerMinute: null,
      fallbackModels: [],
      allowedHours: null,
      latestStart: null,
    });
  });

  it.each([
    [{ provider: "groq" }, { provider: "groq", baseUrl: null, apiKey: null }],
    [
      { provider: "groq", baseUrl: "http://flag/v1" },
      { provider: "groq", baseUrl: "http://flag/v1" },
    ],
    [{ provider: "deepseek" }, { provider: "deepseek", baseUrl: "https://api.deepseek.com/v1", apiKey: "k" }],
    [{ baseUrl: "http://flag/v1" }, { provider: null, baseUrl: "http://flag/v1", apiKey: "k" }],
  ])("a provider hides the base URL of another one below it, and its key: %j", async (flags, expected) => {
    const env = { OPENAI_BASE_URL: "https://api.deepseek.com/v1", OPENAI_API_KEY: "k", GROQ_API_KEY: "g" };
    expect(await load(temporaryFolder({}), env, flags)).toMatchObject({
      ...expected,
      keys: { OPENAI_API_KEY: "k", GROQ_API_KEY: "g" },
    });
  });

  it("a provider nobody knows is refused with the known ones", async () => {
    await expect(load(temporaryFolder({}), { PAWL_PROVIDER: "deepsek" })).rejects.toThrow(
      /^PAWL_PROVIDER: expected a provider \(openai, anthropic, .*\), got "deepsek"/,
    );
  });

  it("flags beat the environment, which beats .env, which beats the file", async () => {
    const cwd = temporaryFolder({
      "pawl.config.json": JSON.stringify({
        model: "file",
        baseUrl: "http://file/v1",
        leaseMs: 1000,
        maxSteps: 7,
      }),
      ".env": "OPENAI_MODEL=dotenv\nOPENAI_BASE_URL=http://dotenv/v1\nPAWL_LEASE_MS=2000\n",
    });
    const env = { OPENAI_MODEL: "environment", OPENAI_BASE_URL: "http://environment/v1" };
    const config = await load(cwd, env, { model: "flag", concurrency: "9" });
    expect(config).toMatchObject({
      model: "flag",
      baseUrl: "http://environment/v1",
      leaseMs: 2000,
      maxSteps: 7,
      concurrency: 9,
    });
    expect(env).toEqual({ OPENAI_MODEL: "environment", OPENAI_BASE_URL: "http://environment/v1" });
    expect(process.env.PAWL_LEASE_MS).toBeUndefined();
  });

  it("an empty variable hides that of .env and sets nothing", async () => {
    const cwd = temporaryFolder({ ".env": "OPENAI_BASE_URL=http://dotenv/v1\n" });
    expect(await load(cwd, { OPENAI_BASE_URL: "" })).toMatchObject({ baseUrl: null });
  });

  it("a folder named .env sets nothing", async () => {
    expect(await load(temporaryFolder({ ".env/bin/python": "" }))).toMatchObject({ model: null });
  });
});

describe("configuration file", () => {
  it.each([
    [
      "pawl.config.ts",
      "interface A { b: string }\nexport default { model: 'm' as string } satisfies object;",
    ],
    ["pawl.config.js", "export default { model: 'm' };"],
    ["pawl.config.mjs", "export default { model: 'm' };"],
    ["pawl.config.json", '\uFEFF{"model": "m"}'],
    ["pawl.config.yaml", "model: m # comment\nmaxSteps:\n"],
    ["pawl.config.yml", "model: m"],
  ])("%s is read", async (name, content) => {
    expect(await load(temporaryFolder({ [name]: content }))).toMatchObject({ model: "m" });
  });

  it("two of them in one folder are refused by name", async () => {
    const cwd = temporaryFolder({ "pawl.config.ts": "", "pawl.config.yaml": "" });
    const message = await refusal(load(cwd));
    expect(message).toContain(path.join(cwd, "pawl.config.ts"));
    expect(message).toContain(path.join(cwd, "pawl.config.yaml"));
  });

  it("the one beside .pawl counts in folders below", async () => {
    const root = temporaryFolder({ "pawl.config.yaml": "model: root", ".pawl/id": "", "a/b/file": "" });
    expect(await load(path.join(root, "a", "b"))).toMatchObject({ model: "root" });
  });

  it("the one in the current folder goes before the one beside .pawl", async () => {
    const root = temporaryFolder({
      "pawl.config.yaml": "model: root\nmaxSteps: 3",
      ".pawl/id": "",
      "a/pawl.config.yaml": "model: here",
    });
    expect(await load(path.join(root, "a"))).toMatchObject({ model: "here", maxSteps: 100 });
  });

  it("one beside the folder of PAWL_HOME is not read", async () => {
    const root = temporaryFolder({
      "pawl.config.yaml": "model: stranger",
      "home/id": "",
      "project/file": "",
    });
    const env = { PAWL_HOME: path.join(root, "home") };
    expect(await load(path.join(root, "project"), env)).toMatchObject({ model: null });
  });

  it("its paths start at the file, and the prompt's text is loaded", async () => {
    const root = temporaryFolder({
      "pawl.config.yaml": "tools: [tools/weather.ts]\nsystemPrompt: prompt.md",
      "prompt.md": "Be brief.\n",
      ".pawl/id": "",
      "a/file": "",
    });
    expect(await load(path.join(root, "a"))).toMatchObject({
      tools: [path.join(root, "tools", "weather.ts")],
      systemPrompt: "Be brief.\n",
    });
  });

  it("one that is no object, or cannot be loaded, is refused by name", async () => {
    expect(await refusal(load(temporaryFolder({ "pawl.config.yaml": "[1]" })))).toContain(
      "pawl.config.yaml: expected an object with settings, got a list",
    );
    expect(await refusal(load(temporaryFolder({ "pawl.config.ts": "export default {" })))).toContain(
      "pawl.config.ts: cannot be loaded",
    );
  });
});

describe("errors", () => {
  it("an unknown setting gets a suggestion", async () => {
    const cwd = temporaryFolder({ "pawl.config.json": '{"leasems": 5000}' });
    expect(await refusal(load(cwd))).toContain(
      `${path.join(cwd, "pawl.config.json")}: leasems: unknown (did you mean "leaseMs"?)`,
    );
  });

  it("a bad value names its variable, file or flag, what was expected and what was got", async () => {
    const expected = 'expected a whole number of milliseconds from 100 to 2147483647, got "soon"';
    const cwd = temporaryFolder({ ".env": "PAWL_LEASE_MS=soon" });
    expect(await refusal(load(temporaryFolder(), { PAWL_LEASE_MS: "soon" }))).toBe(
      `ConfigError: PAWL_LEASE_MS: ${expected}`,
    );
    expect(await refusal(load(cwd))).toBe(
      `ConfigError: PAWL_LEASE_MS in ${path.join(cwd, ".env")}: ${expected}`,
    );
    expect(await refusal(load(temporaryFolder(), {}, { leaseMs: "soon" }))).toBe(
      `ConfigError: --lease-ms: ${expected}`,
    );
    expect(await refusal(load(temporaryFolder(), { PAWL_LOG: "loud" }))).toContain(
      'PAWL_LOG: expected "silent", "info" or "debug", got "loud"',
    );
  });

  it("every bad value of a source is named at once", async () => {
    const cwd = temporaryFolder({ "pawl.config.json": '{"maxSteps": 0, "tools": ["a.ts", 5]}' });
    const message = await refusal(load(cwd));
    expect(message).toContain("maxSteps: expected a whole number of steps from 1 to 1000000, got 0");
    expect(message).toContain("tools: expected a list of paths of modules, got 5");
  });

  it("a missing prompt file is named", async () => {
    expect(await refusal(load(temporaryFolder(), {}, { systemPrompt: "nowhere.md" }))).toContain(
      "nowhere.md",
    );
  });

  it("PostgreSQL is refused by name as not built yet", async () => {
    const message = await refusal(load(temporaryFolder(), { PAWL_DB: "postgres://me:hush@host/db" }));
    expect(message).toContain("PAWL_DB: PostgreSQL is not built yet");
    expect(message).not.toContain("hush");
  });

  it.each(["redis://localhost:6379", "rediss://:hush@host/1"])("%s is a queue", async (queue) => {
    expect(await load(temporaryFolder(), { PAWL_QUEUE: queue })).toMatchObject({ queue });
  });

  it("no message repeats a key or a password", async () => {
    const hush = "sk-hush";
    const messages = [
      await refusal(load(temporaryFolder(), { OPENAI_API_KEY: `${hush} twice` })),
      await refusal(load(temporaryFolder(), { OPENAI_BASE_URL: hush })),
      await refusal(load(temporaryFolder(), { PAWL_QUEUE: `amqp://me:${hush}@host` })),
      await refusal(load(temporaryFolder({ "pawl.config.json": `{"apiKey": ["${hush}"]}` }))),
      await refusal(load(temporaryFolder({ "pawl.config.json": `{"apiKey": ${hush}}` }))),
      await refusal(load(temporaryFolder({ "pawl.config.yaml": `apiKey: "a" "${hush}"` }))),
      await refusal(load(temporaryFolder({ "pawl.config.yaml": `apiKey: ${hush}\n  b: c` }))),
      await refusal(load(temporaryFolder({ "pawl.config.yaml": `apikey: ${hush}` }))),
    ];
    for (const message of messages) expect(message).not.toContain("hush");
    expect(messages[0]).toContain("OPENAI_API_KEY: expected a key without blanks, got something else");
    expect(messages[1]).toContain(
      "OPENAI_BASE_URL: expected an http or https URL, got a text that is no URL",
    );
    expect(messages[5]).toContain("at line 1, column");
  });
});

describe("hours", () => {
  it.each([
    ["allowedHours", "22-6", 'expected hours such as 22:00-06:00, or 22:00-06:00 Europe/Berlin, got "22-6"'],
    ["latestStart", "late", 'expected a time of the day such as 05:00, got "late"'],
  ])("%s is refused where it is none", async (name, value, message) => {
    const cwd = temporaryFolder({ "pawl.config.json": JSON.stringify({ [name]: value }) });
    expect(await refusal(load(cwd))).toContain(`${name}: ${message}`);
  });

  it("are refused where the latest start is outside of them", async () => {
    const hours = { allowedHours: "22:00-06:00", latestStart: "12:00" };
    const cwd = temporaryFolder({ "pawl.config.json": JSON.stringify(hours) });
    expect(await refusal(load(cwd))).toContain("expected latestStart to be within the allowed hours");
  });
});
