import { describe, expect, it } from "vitest";
import { resolveModelSettings } from "../../src/config/model-settings.ts";
import { ConfigError } from "../../src/errors.ts";

const nothing = { model: null, baseUrl: null, apiKey: null, contextTokens: null, keyVariables: [] };

it("with a key alone it is gpt-4o-mini at OpenAI", () => {
  expect(resolveModelSettings({ ...nothing, apiKey: "sk-1" })).toEqual({
    model: "gpt-4o-mini",
    baseUrl: "https://api.openai.com/v1",
    apiKey: "sk-1",
    contextTokens: 128_000,
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
  const config = { ...nothing, keyVariables: ["DEEPSEEK_API_KEY", "GROQ_API_KEY"] };
  expect(() => resolveModelSettings(config)).toThrow(/OPENAI_API_KEY.*found DEEPSEEK_API_KEY, GROQ_API_KEY:/);
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

  it("a key that is set goes to a local service too", () => {
    const config = { ...nothing, baseUrl: "http://localhost:4000", model: "m", apiKey: "sk-proxy" };
    expect(resolveModelSettings(config).apiKey).toBe("sk-proxy");
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
