import { describe, expect, it } from "vitest";
import { resolveModelSettings, resolveRunSettings } from "../../src/config/model-settings.ts";
import { ConfigError } from "../../src/errors.ts";

const nothing = {
  model: null,
  baseUrl: null,
  apiKey: null,
  contextTokens: null,
  maxOutputTokens: null,
  provider: null,
  keys: {},
};

it("with a key alone it is gpt-4o-mini at OpenAI", () => {
  expect(resolveModelSettings({ ...nothing, apiKey: "sk-1" })).toEqual({
    model: "gpt-4o-mini",
    provider: "openai",
    baseUrl: "https://api.openai.com/v1",
    apiKey: "sk-1",
    contextTokens: 128_000,
    maxOutputTokens: 8_000,
  });
});

it("a base URL without a model is refused in one line that says what to set", () => {
  const config = { ...nothing, baseUrl: "https://api.deepseek.com", apiKey: "sk-1" };
  expect(() => resolveModelSettings(config)).toThrow(ConfigError);
  expect(() => resolveModelSettings(config)).toThrow(/^.*set OPENAI_MODEL or pass --model$/);
});

it("a task's model goes before the configured one", () => {
  const config = { ...nothing, baseUrl: "https://api.deepseek.com", apiKey: "sk-1" };
  expect(resolveModelSettings(config, "deepseek-chat").model).toBe("deepseek-chat");
  expect(resolveModelSettings({ ...config, model: "configured" }, "own").model).toBe("own");
  expect(resolveModelSettings({ ...config, model: "configured" }, null).model).toBe("configured");
});

it("a missing key names OPENAI_API_KEY and the keys that were found", () => {
  expect(() => resolveModelSettings(nothing)).toThrow(
    "expected a key in OPENAI_API_KEY, got none; set it in the environment or in .env",
  );
  const config = { ...nothing, keys: { DEEPSEEK_API_KEY: "d", GROQ_API_KEY: "g", MINE_API_KEY: "m" } };
  expect(() => resolveModelSettings(config)).toThrow(
    /OPENAI_API_KEY.*found DEEPSEEK_API_KEY \(provider deepseek: PAWL_PROVIDER=deepseek\), GROQ_API_KEY \(provider groq: PAWL_PROVIDER=groq\), MINE_API_KEY:/,
  );
});

describe("keys and base URLs", () => {
  it.each([
    "http://localhost:11434/v1",
    "http://127.0.0.1:8000/v1",
    "http://127.9.9.9/v1",
    "http://[::1]:8000/v1",
    "http://0.0.0.0:8000/v1",
    "http://host.docker.internal:11434/v1",
    "http://studio.local:1234/v1",
    "http://10.1.2.3/v1",
    "http://172.31.0.1/v1",
    "http://192.168.1.9/v1",
    "http://[fd00::1]/v1",
    "http://ollama:11434/v1",
  ])("%s needs no key", (baseUrl) => {
    const settings = resolveModelSettings({ ...nothing, baseUrl, model: "m" });
    expect(settings.apiKey).not.toBe("");
  });

  it.each([
    "https://api.deepseek.com",
    "http://172.15.0.1/v1",
    "http://172.32.0.1/v1",
    "http://11.0.0.1/v1",
    "https://localhost.example.com/v1",
    "https://local.example/v1",
    "http://[2001:db8::1]/v1",
  ])("%s needs one", (baseUrl) => {
    expect(() => resolveModelSettings({ ...nothing, baseUrl, model: "m" })).toThrow(ConfigError);
  });

  it("a server of one's own is asked at /v1 where the base URL lacks it, and a run that began there finds its key", () => {
    const config = { ...nothing, baseUrl: "http://localhost:1234", model: "m", apiKey: "sk-1" };
    const { baseUrl } = resolveModelSettings(config);
    expect(baseUrl).toBe("http://localhost:1234/v1");
    expect(resolveRunSettings(config, { model: "m", baseUrl }).apiKey).toBe("sk-1");
  });

  it("a key that is set goes to a local service too", () => {
    const config = { ...nothing, baseUrl: "http://localhost:4000", model: "m", apiKey: "sk-proxy" };
    expect(resolveModelSettings(config).apiKey).toBe("sk-proxy");
  });
});

describe("a provider", () => {
  const keys = { DEEPSEEK_API_KEY: "d", OPENAI_API_KEY: "o" };
  const config = { ...nothing, model: "m", apiKey: "o", keys };

  it("that is named gives the base URL, and the key of its own variable", () => {
    expect(resolveModelSettings({ ...config, provider: "deepseek" })).toMatchObject({
      provider: "deepseek",
      baseUrl: "https://api.deepseek.com/v1",
      apiKey: "d",
    });
    expect(resolveModelSettings({ ...config, provider: "openai" })).toMatchObject({ apiKey: "o" });
    expect(resolveModelSettings({ ...config, provider: "ollama" })).toMatchObject({
      baseUrl: "http://localhost:11434/v1",
      apiKey: null,
    });
  });

  it("gets no key of another one, and the message says whose keys were found", () => {
    const groq = { ...config, provider: "groq" };
    expect(() => resolveModelSettings(groq)).toThrow(ConfigError);
    expect(() => resolveModelSettings(groq)).toThrow(
      "expected a key in GROQ_API_KEY, got none; set it in the environment or in .env; found DEEPSEEK_API_KEY (provider deepseek: PAWL_PROVIDER=deepseek), OPENAI_API_KEY (provider openai: PAWL_PROVIDER=openai): the key of another service is not sent",
    );
  });

  it("gets the key that is written beside its name", () => {
    expect(resolveModelSettings({ ...config, provider: "groq", apiKey: "mine" })).toMatchObject({
      apiKey: "mine",
    });
  });

  it("beside a base URL only says how to speak: its own key does not go there, that of the base URL does", () => {
    const proxied = { ...config, provider: "deepseek", baseUrl: "https://proxy.example/v1" };
    expect(resolveModelSettings(proxied)).toMatchObject({
      provider: "deepseek",
      baseUrl: "https://proxy.example/v1",
      apiKey: "o",
    });
    expect(() => resolveModelSettings({ ...proxied, apiKey: null })).toThrow(
      /expected a key in OPENAI_API_KEY/,
    );
  });

  it.each([
    ["https://api.deepseek.com/v1", "d"],
    ["https://api.openai.com/v1", "o"],
  ])("whose base URL %s is set gets the key of its variable first", (baseUrl, apiKey) => {
    expect(resolveModelSettings({ ...config, baseUrl })).toMatchObject({ apiKey });
  });

  it("that people run themselves gets the key of its variable wherever its base URL is", () => {
    const litellm = { ...config, provider: "litellm", keys: { LITELLM_API_KEY: "l" }, apiKey: null };
    for (const baseUrl of [null, "https://llm.example/v1"]) {
      expect(resolveModelSettings({ ...litellm, baseUrl })).toMatchObject({ apiKey: "l" });
    }
    const begun = { model: "m", baseUrl: "https://other.example/v1", provider: "litellm" };
    expect(() => resolveRunSettings(litellm, begun)).toThrow(/whose key goes to no other service/);
  });

  it.each([
    ["deepseek", /^expected a model, as a provider is set, got none; set OPENAI_MODEL/],
    ["generic", /^expected a base URL for the provider generic, got none; set OPENAI_BASE_URL$/],
  ])("%s without what it needs is refused", (provider, message) => {
    expect(() => resolveModelSettings({ ...nothing, keys, provider })).toThrow(message);
  });
});

describe("a run that has begun", () => {
  it("keeps its provider, and gets the key of that one's variable whatever is configured now", () => {
    const config = {
      ...nothing,
      model: "new",
      keys: { DEEPSEEK_API_KEY: "d", OPENAI_API_KEY: "o" },
      apiKey: "o",
    };
    const begun = { model: "old", baseUrl: "https://api.deepseek.com/v1", provider: "qwen" };
    expect(resolveRunSettings(config, begun)).toMatchObject({ ...begun, apiKey: "d" });
    const proxied = { ...begun, baseUrl: "https://proxy.example/v1" };
    expect(() => resolveRunSettings(config, proxied)).toThrow(/whose key goes to no other service/);
  });

  const begun = { model: "old", baseUrl: "https://api.deepseek.com/v1" };
  const config = { ...nothing, model: "new", apiKey: "sk-1" };

  it("keeps its model and its base URL, and gets the key of that service", () => {
    const same = { ...config, baseUrl: "https://api.deepseek.com" };
    expect(resolveRunSettings(same, begun)).toMatchObject({ ...begun, apiKey: "sk-1" });
    const openai = { model: "old", baseUrl: "https://api.openai.com/v1" };
    expect(resolveRunSettings(config, openai)).toMatchObject({ ...openai, apiKey: "sk-1" });
  });

  it.each([
    null,
    "http://api.deepseek.com/v1",
    "https://api.deepseek.com:8443/v1",
    "http://localhost:11434/v1",
  ])("gets no key of another service (%s), and says what to set", (baseUrl) => {
    expect(() => resolveRunSettings({ ...config, baseUrl }, begun)).toThrow(ConfigError);
    expect(() => resolveRunSettings({ ...config, baseUrl }, begun)).toThrow(
      /^expected the settings of https:\/\/api\.deepseek\.com, .*OPENAI_BASE_URL and OPENAI_API_KEY/,
    );
  });

  it("asks a local service without a key", () => {
    const local = { model: "old", baseUrl: "http://localhost:11434/v1" };
    expect(resolveRunSettings(config, local)).toMatchObject({ ...local, apiKey: null });
  });
});

describe("the window", () => {
  const config = { ...nothing, apiKey: "sk-1" };

  it.each([
    [{ contextTokens: 100, maxOutputTokens: null }, /got 100 \(contextTokens\) with 25 /],
    [
      { contextTokens: 8_192, maxOutputTokens: 8_000 },
      /at least 2000 tokens.*got 8192 .*with 8000 .*lower maxOutputTokens/,
    ],
    [{ contextTokens: null, maxOutputTokens: 1_000_000 }, /got 128000 /],
  ])("is refused where it has no room for a prompt: %j", (sizes, message) => {
    expect(() => resolveModelSettings({ ...config, ...sizes })).toThrow(ConfigError);
    expect(() => resolveModelSettings({ ...config, ...sizes })).toThrow(message);
  });

  it.each([
    ["gpt-4o", 8_000],
    ["gpt-4", 2_048],
  ])("leaves replies of %s %i tokens", (model, maxOutputTokens) => {
    expect(resolveModelSettings({ ...config, model })).toMatchObject({ maxOutputTokens });
  });
});

it.each([
  ["gpt-4.1-mini", 1_047_576],
  ["openai/gpt-4o", 128_000],
  ["gpt-4", 8_192],
  ["anthropic/claude-sonnet-4", 200_000],
  ["nobody-knows", 128_000],
])("the window of %s is %i tokens unless the settings say otherwise", (model, expected) => {
  const config = { ...nothing, apiKey: "sk-1", model };
  expect(resolveModelSettings(config).contextTokens).toBe(expected);
  expect(resolveModelSettings({ ...config, contextTokens: 32_000 }).contextTokens).toBe(32_000);
});
