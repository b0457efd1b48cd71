import { expect, it } from "vitest";
import {
  defaultBaseUrl,
  keyVariablesOf,
  profileOf,
  providerNames,
  withApiPath,
} from "../../src/model/profiles.ts";

it.each([
  [defaultBaseUrl, "openai"],
  ["https://mine.openai.azure.com/openai/v1", "openai"],
  ["https://api.anthropic.com/v1/", "anthropic"],
  ["https://openrouter.ai/api/v1", "openrouter"],
  ["https://api.deepseek.com", "deepseek"],
  ["https://ark.cn-beijing.volces.com/api/v3", "ark"],
  ["https://open.bigmodel.cn/api/paas/v4", "glm"],
  ["https://api.z.ai/api/paas/v4", "zai"],
  ["https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "qwen"],
  ["https://api.moonshot.ai/v1", "kimi"],
  ["https://generativelanguage.googleapis.com/v1beta/openai/", "gemini"],
  ["https://api.mistral.ai/v1", "mistral"],
  ["https://api.groq.com/openai/v1", "groq"],
  ["http://localhost:11434/v1", "ollama"],
  ["http://localhost:4000", "litellm"],
  ["http://127.0.0.1:8000/v1", "vllm"],
  ["http://[::1]:8080", "llama.cpp"],
  ["http://localhost:1234/v1", "lmstudio"],
  ["http://localhost:9999/v1", "generic"],
  ["http://localhost", "generic"],
  ["https://api.example:8000/v1", "generic"],
  ["https://notopenai.com/v1", "generic"],
  ["https://evil.example/api.openai.com/v1", "generic"],
])("%s is guessed to be %s", (baseUrl, name) => {
  expect(profileOf(baseUrl).name).toBe(name);
});

it("only OpenAI gets the newer name of the output limit", () => {
  expect(profileOf(defaultBaseUrl).tokensParameter).toBe("max_completion_tokens");
  expect(profileOf("http://localhost:8000/v1").tokensParameter).toBe("max_tokens");
});

it.each(providerNames)("%s can be named, whatever the base URL looks like", (name) => {
  expect(profileOf("https://proxy.example/v1", name).name).toBe(name);
});

it.each([
  ["https://api.deepseek.com/v1", ["DEEPSEEK_API_KEY", "OPENAI_API_KEY"]],
  ["https://dashscope-intl.aliyuncs.com/compatible-mode/v1", ["DASHSCOPE_API_KEY", "OPENAI_API_KEY"]],
  ["http://api.deepseek.com/v1", ["OPENAI_API_KEY"]],
  ["https://api.deepseek.com.evil.example/v1", ["OPENAI_API_KEY"]],
  ["https://proxy.example/v1", ["OPENAI_API_KEY"]],
])("the key for %s may be in %j", (baseUrl, variables) => {
  expect(keyVariablesOf(baseUrl)).toEqual(variables);
});

it.each([
  ["http://localhost:11434", undefined, "http://localhost:11434/v1"],
  ["http://127.0.0.1:8080/", undefined, "http://127.0.0.1:8080/v1"],
  ["http://studio.local:1717", "lmstudio", "http://studio.local:1717/v1"],
  ["http://localhost:11434/v1", undefined, "http://localhost:11434/v1"],
  ["http://localhost:11434/proxy", undefined, "http://localhost:11434/proxy"],
  ["http://localhost:9999", undefined, "http://localhost:9999"],
  ["https://api.deepseek.com", undefined, "https://api.deepseek.com"],
  ["https://proxy.example", "deepseek", "https://proxy.example"],
])("%s of %s is asked at %s", (baseUrl, name, asked) => {
  expect(withApiPath(baseUrl, name)).toBe(asked);
});
