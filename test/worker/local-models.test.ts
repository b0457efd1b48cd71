import { mkdirSync } from "node:fs";
import path from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { ModelError } from "../../src/errors.ts";
import type { Model } from "../../src/model/model.ts";
import { openPawl } from "../../src/pawl.ts";
import { exportMessages } from "../../src/report/export.ts";
import { type LocalServer, refused, said, startLocalServer } from "../helpers/local-server.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

interface Logged {
  event: string;
  [fact: string]: unknown;
}

/** A data directory with these settings, and what its workers log. */
async function open(settings: Record<string, unknown>, model?: Model) {
  const folder = temporaryFolder();
  const dir = path.join(folder, "work");
  mkdirSync(dir);
  const logged: Logged[] = [];
  const note = (event: string, facts: Record<string, unknown> = {}) => void logged.push({ event, ...facts });
  const pawl = await openPawl({
    cwd: folder,
    env: { PATH: process.env.PATH, PAWL_HOME: path.join(folder, "data") },
    settings: { model: "m", ...settings },
    logger: { info: note, debug: () => {} },
    ...(model && { model }),
  });
  onTestFinished(() => pawl.close());
  /** Runs tasks one after another, and gives what became of each. */
  const work = async (...tasks: object[]) => {
    const created = await pawl.enqueue(tasks.map((task) => ({ prompt: "Count the files.", dir, ...task })));
    await (await pawl.startWorker({ drain: true, concurrency: 1 })).done;
    return Promise.all(created.map(({ id }) => look(id)));
  };
  const look = async (id: string) => {
    const row = await pawl.store.findRun(id);
    const { fixed } = JSON.parse(row.spec) as { fixed?: Record<string, unknown> };
    const events = await pawl.store.loadEvents({ runId: id });
    const changes = events.filter(({ kind }) => kind === "protocol_changed").map(({ data }) => data);
    return { row, fixed, changes, run: await pawl.getRun(id) };
  };
  const saidOf = (event: string) => logged.filter((each) => each.event === event);
  return { pawl, work, look, saidOf };
}

const noTools = "m does not support tools";
const ends = "Thought: I know.\nFinal Answer: three";

/** Answers in the protocol that is asked for; `native` is what it does with tools. */
const chat =
  (native: ReturnType<typeof said>) =>
  ({ tools }: Record<string, unknown>) =>
    tools === undefined ? said(ends) : native;

function startOllama(capabilities: string[], window = 16_384): Promise<LocalServer> {
  return startLocalServer({
    "POST /api/show": () => ({
      body: { capabilities, model_info: { "llama.context_length": 131_072 }, parameters: "" },
    }),
    "GET /api/ps": () => ({ body: { models: [{ name: "m:latest", context_length: window }] } }),
    "POST /v1/chat/completions": chat(capabilities.includes("tools") ? said("three") : refused(noTools)),
  });
}

describe("a run at Ollama", () => {
  test("needs no key and no /v1, has the window that the model got, and all of it is said once", async () => {
    const server = await startOllama(["completion", "tools"]);
    const { work, saidOf } = await open({ provider: "ollama", baseUrl: server.url });
    const [first, second] = await work({}, {});
    expect(first?.run).toMatchObject({ status: "succeeded", result: "three", protocol: "native" });
    expect(first?.fixed).toMatchObject({ baseUrl: `${server.url}/v1`, contextTokens: 16_384 });
    expect(second?.fixed).toMatchObject({ contextTokens: 16_384 });
    // A quarter of the window, which is less than the usual 8,000.
    expect(server.chats.map(({ max_tokens: limit }) => limit)).toEqual([4_096, 4_096]);
    expect(saidOf("model.base_url")).toEqual([{ event: "model.base_url", baseUrl: `${server.url}/v1` }]);
    expect(saidOf("model.window")).toMatchObject([{ contextTokens: 16_384, maxContextTokens: 131_072 }]);
  });

  test("has the window of the settings where they name one, whatever the server says", async () => {
    const server = await startOllama(["tools"]);
    const settings = { provider: "ollama", baseUrl: server.url };
    const { work } = await open({ ...settings, contextTokens: 12_000 });
    await work({});
    expect(server.chats[0]?.max_tokens).toBe(3_000);
  });

  test("with a model that takes no tools is in ReAct from the beginning: no request is refused", async () => {
    const server = await startOllama(["completion"]);
    const { work, saidOf } = await open({ provider: "ollama", baseUrl: server.url });
    const [first] = await work({}, {});
    expect(first?.run).toMatchObject({ status: "succeeded", result: "three", protocol: "react" });
    expect(first?.changes).toEqual([JSON.stringify({ from: "native", to: "react", why: noTools })]);
    expect(server.chats).toHaveLength(2);
    expect(saidOf("protocol.changed")).toHaveLength(1);
  });

  test("whose window has no room for a prompt waits, and says so", async () => {
    const server = await startOllama(["tools"], 2_048);
    const { work } = await open({ provider: "ollama", baseUrl: server.url });
    const [only] = await work({});
    expect(only?.run.waiting).toMatchObject({ kind: "auth" });
    expect(only?.run.waiting?.note).toMatch(/got 2048/);
    expect(server.chats).toEqual([]);
  });
});

describe("a server that refuses tools", () => {
  test.each([
    ["vLLM", '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', 400],
    ["OpenRouter", "No endpoints found that support tool use. Try disabling tools.", 404],
    ["llama.cpp", "tools param requires --jinja flag", 500],
  ])("makes a run begin anew in ReAct, and the next ones in it at once: %s", async (_, message, status) => {
    const server = await startLocalServer({
      "POST /v1/chat/completions": chat(refused(message, status)),
    });
    const { pawl, work, saidOf } = await open({ baseUrl: `${server.url}/v1` });
    const [first, second, third] = await work({}, {}, {});
    for (const each of [first, second, third]) {
      expect(each?.run).toMatchObject({ status: "succeeded", result: "three", steps: 1, protocol: "react" });
      expect(each?.changes).toHaveLength(1);
      expect(each?.changes[0]).toContain(message.replaceAll('"', '\\"'));
    }
    expect(server.chats).toHaveLength(4);
    expect(server.chats[1]?.tools).toBeUndefined();
    expect(JSON.stringify(server.chats[1]?.messages)).toContain("Action Input:");
    expect(saidOf("protocol.changed")).toMatchObject([{ to: "react" }]);

    const rows = await pawl.store.loadMessages(first?.row.id ?? "");
    expect(rows.map(({ kind }) => kind)).toEqual(["system", "task", "system", "reply"]);
    const exported = await exportMessages(pawl.store, await pawl.store.findRun(first?.row.id ?? ""));
    expect(exported.slice(0, 2)).toEqual(server.chats[1]?.messages);
  });

  test.each([
    ["the task", { protocol: "native" }, {}],
    ["the configuration", {}, { protocol: "native" }],
  ])("ends a run whose protocol %s chose, and says what to do", async (_, task, settings) => {
    const server = await startLocalServer({ "POST /v1/chat/completions": chat(refused(noTools)) });
    const { work } = await open({ baseUrl: `${server.url}/v1`, ...settings });
    const [only] = await work(task);
    expect(only?.run).toMatchObject({ status: "failed", reason: "model_error", protocol: "native" });
    expect(only?.run.error).toMatch(/m does not support tools.*--protocol react/);
    expect(server.chats).toHaveLength(1);
  });

  test("after the first reply ends the run: what was said stays in its protocol", async () => {
    let count = 0;
    const call = { id: "c1", type: "function", function: { name: "bash", arguments: '{"command":"ls"}' } };
    const message = { role: "assistant", content: null, tool_calls: [call] };
    const server = await startLocalServer({
      "POST /v1/chat/completions": () => {
        count += 1;
        return count > 1
          ? refused(noTools)
          : { body: { choices: [{ index: 0, message, finish_reason: "tool_calls" }] } };
      },
    });
    const { work } = await open({ baseUrl: `${server.url}/v1` });
    const [only] = await work({});
    expect(only?.run).toMatchObject({ status: "failed", reason: "model_error", steps: 1 });
    expect(only?.changes).toEqual([]);
  });

  test("may be a model of the program's own", async () => {
    const model: Model = {
      async ask({ tools }) {
        if (tools) throw new ModelError("invalid", noTools, { unsupported: "tools" });
        const usage = { promptTokens: 1, completionTokens: 1, cachedTokens: null, reasoningTokens: null };
        return {
          message: { role: "assistant", content: ends },
          finishReason: "stop",
          usage,
          responseId: null,
        };
      },
    };
    const { work } = await open({}, model);
    const [only] = await work({});
    expect(only?.run).toMatchObject({ status: "succeeded", result: "three", protocol: "react" });
  });
});

test("the 404 of a base URL without a path says that it mostly ends in /v1", async () => {
  const server = await startLocalServer({});
  const { work } = await open({ baseUrl: server.url });
  const [only] = await work({});
  expect(only?.run.error).toMatch(/404.*check the base URL, which mostly ends in \/v1, and the name/);
});
