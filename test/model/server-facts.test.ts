import { describe, expect, it } from "vitest";
import { readServerFacts } from "../../src/model/server-facts.ts";
import { type LocalServer, startLocalServer } from "../helpers/local-server.ts";
import { waitUntil } from "../helpers/wait-until.ts";

function facts(server: LocalServer, provider: string, more: { model?: string; signal?: AbortSignal } = {}) {
  const { model = "m", signal = new AbortController().signal } = more;
  return readServerFacts({ baseUrl: `${server.url}/v1`, apiKey: null, provider, model, signal });
}

const shown = (more: object) => () => ({
  body: { capabilities: ["completion", "tools"], model_info: { "qwen3.context_length": 40_960 }, ...more },
});
const running = (...models: object[]) => ({ body: { models } });

describe("Ollama", () => {
  it("tells the window of a model that is loaded, whatever its tag", async () => {
    const server = await startLocalServer({
      "POST /api/show": shown({ parameters: "num_ctx 8192" }),
      "GET /api/ps": () =>
        running(
          { name: "other:latest", context_length: 1_024 },
          { name: "m:latest", model: "m:latest", context_length: 16_384 },
        ),
    });
    expect(await facts(server, "ollama")).toMatchObject({
      contextTokens: 16_384,
      maxContextTokens: 40_960,
      takesTools: true,
    });
    expect(server.asked).not.toContain("POST /api/generate");
  });

  it("tells what the Modelfile asks for, and no more than the model can have", async () => {
    const server = await startLocalServer({
      "POST /api/show": ({ model }) =>
        shown({ parameters: `stop "x"\nnum_ctx   ${model === "small" ? 8192 : 99_999}` })(),
      "GET /api/ps": () => running(),
    });
    expect((await facts(server, "ollama", { model: "small" })).contextTokens).toBe(8_192);
    expect((await facts(server, "ollama", { model: "large" })).contextTokens).toBe(40_960);
  });

  it("has a model loaded that names no window, and tells the one it got", async () => {
    let isLoaded = false;
    const server = await startLocalServer({
      "POST /api/show": shown({ parameters: "" }),
      "POST /api/generate": ({ model, prompt }) => {
        isLoaded = model === "m" && prompt === undefined;
        return { body: { done_reason: "load" } };
      },
      "GET /api/ps": () => (isLoaded ? running({ name: "m", context_length: 32_768 }) : running()),
    });
    expect((await facts(server, "ollama")).contextTokens).toBe(32_768);
  });

  it("is taken to give 4,096 tokens where it does not say, and says that a model takes no tools", async () => {
    const server = await startLocalServer({
      "POST /api/show": shown({ capabilities: ["completion"] }),
    });
    expect(await facts(server, "ollama")).toMatchObject({ contextTokens: 4_096, takesTools: false });
  });

  it("that is too old to name capabilities leaves open whether tools are taken", async () => {
    const server = await startLocalServer({ "POST /api/show": shown({ capabilities: undefined }) });
    expect((await facts(server, "ollama")).takesTools).toBeNull();
  });
});

it("llama.cpp tells the window of a slot", async () => {
  const server = await startLocalServer({
    "GET /props": () => ({ body: { total_slots: 4, default_generation_settings: { n_ctx: 12_288 } } }),
  });
  expect(await facts(server, "llama.cpp")).toMatchObject({ contextTokens: 12_288, takesTools: null });
});

it("LM Studio tells the window of a loaded model, and of another one only what it could have", async () => {
  const server = await startLocalServer({
    "GET /api/v0/models": () => ({
      body: {
        data: [
          { id: "m", state: "loaded", loaded_context_length: 8_192, max_context_length: 131_072 },
          { id: "cold", state: "not-loaded", max_context_length: 32_768 },
        ],
      },
    }),
  });
  const whole = { contextTokens: 8_192, maxContextTokens: 131_072 };
  expect(await facts(server, "lmstudio")).toMatchObject(whole);
  const cold = { contextTokens: null, maxContextTokens: 32_768 };
  expect(await facts(server, "lmstudio", { model: "cold" })).toMatchObject(cold);
});

it("vLLM tells the longest request of a model", async () => {
  const server = await startLocalServer({
    "GET /v1/models": () => ({ body: { data: [{ id: "m", max_model_len: 20_000 }, { id: "n" }] } }),
  });
  expect((await facts(server, "vllm")).contextTokens).toBe(20_000);
  expect((await facts(server, "vllm", { model: "n" })).contextTokens).toBeNull();
});

describe("what goes wrong is no error", () => {
  const open = { contextTokens: null, takesTools: null };

  it.each<[string, Parameters<typeof startLocalServer>[0]]>([
    ["a server without such a path", {}],
    ["another text", { "GET /props": () => ({ body: "no" }), "POST /api/show": () => ({ body: [] }) }],
    [
      "a window that is none",
      { "GET /props": () => ({ body: { default_generation_settings: { n_ctx: -1 } } }) },
    ],
    ["a server that does not answer", { "GET /props": () => "hang", "POST /api/show": () => "hang" }],
    ["a failure", { "GET /props": () => ({ status: 500, body: {} }) }],
  ])("%s", async (_, routes) => {
    const server = await startLocalServer(routes);
    expect(await facts(server, "llama.cpp")).toMatchObject(open);
    expect(await facts(server, "ollama")).toMatchObject(open);
  });

  it("nor a server that is not there, and one of an unknown kind is not asked", async () => {
    const server = await startLocalServer({});
    expect(await facts({ ...server, url: "http://127.0.0.1:0" }, "vllm")).toMatchObject(open);
    expect(await facts(server, "generic")).toMatchObject(open);
    expect(server.asked).toEqual([]);
  });

  it("but an abort ends the asking, also while a model is loaded", async () => {
    const server = await startLocalServer({
      "POST /api/show": shown({}),
      "GET /api/ps": () => running(),
      "POST /api/generate": () => "hang",
    });
    const controller = new AbortController();
    const asked = facts(server, "ollama", { signal: controller.signal });
    const ended = expect(asked).rejects.toThrow("enough");
    await waitUntil(() => server.asked.includes("POST /api/generate"), {
      timeoutMs: 20_000,
      what: "loading",
    });
    controller.abort(new Error("enough"));
    await ended;
  });
});
