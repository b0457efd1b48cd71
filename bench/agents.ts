import { RunAborted } from "../src/abort.ts";
import { type Agent, runAgent } from "../src/agent/loop.ts";
import { nativeProtocol } from "../src/agent/protocols/native.ts";
import type { Protocol } from "../src/agent/protocols/protocol.ts";
import { openRunLog, type RunLog } from "../src/agent/run-log.ts";
import type { Claim, RunRow } from "../src/db/claim.ts";
import type { Store } from "../src/db/store.ts";
import { localEnvironment } from "../src/environment/local.ts";
import { silentLogger } from "../src/log.ts";
import type { Model, ModelReply } from "../src/model/model.ts";
import { defaultBaseUrl, profileOf } from "../src/model/profiles.ts";
import { defineTool } from "../src/tools/define.ts";
import type { Tool } from "../src/tools/tool.ts";

const leaseMs = 600_000;
const usage = { promptTokens: null, completionTokens: null, cachedTokens: null, reasoningTokens: null };

/** A tool that does nothing: what remains is the loop and the store. */
const noop = { pure: noopTool("pure"), unsafe: noopTool("unsafe") };

function noopTool(toolClass: "pure" | "unsafe"): Tool {
  return defineTool({
    name: "noop",
    description: "Does nothing.",
    parameters: { type: "object", properties: { text: { type: "string" } } },
    class: toolClass,
    run: async () => "done",
  });
}

/** Calls the tool `steps` times, `payload` in each call, then ends. A request without tools wants a summary. */
function steppingModel(steps: number, payload: string): Model {
  const input = JSON.stringify({ text: payload });
  let answered = 0;
  return {
    async ask(request): Promise<ModelReply> {
      if (!request.tools) return reply({ content: "## Done\nsteps\n## State\nfine" }, "stop");
      answered += 1;
      if (answered > steps) return reply({ content: "end" }, "stop");
      const call = { id: `call_${answered}`, type: "function", function: { name: "noop", arguments: input } };
      return reply({ content: null, tool_calls: [call] }, "tool_calls");
    },
  };
}

function reply(message: Omit<ModelReply["message"], "role">, finishReason: string): ModelReply {
  return { message: { role: "assistant", ...message }, finishReason, usage, responseId: null };
}

export interface Load {
  steps: number;
  payload?: string;
  /** Bounds the window; small enough, and it never holds more than about twenty steps. */
  contextTokens: number;
  /** Pure unless said: an unsafe one has a start row before each call. */
  toolClass?: "pure" | "unsafe";
  /** Told at each model request. */
  onRequest?: (step: number) => void;
  /** True: the run is given back at the next checkpoint. */
  isStopping?: () => boolean;
}

/** Enqueues and claims `count` runs. */
export async function claimRuns(store: Store, count: number): Promise<RunRow[]> {
  const spec = {
    version: 1 as const,
    prompt: "step",
    repo: null,
    ref: null,
    dir: null,
    maxSteps: 1_000_000,
    timeLimitMs: null,
    model: null,
    tools: null,
    systemPrompt: null,
  };
  await store.enqueue(Array.from({ length: count }, () => ({ spec, key: null, batch: null, priority: 0 })));
  const identity = { host: "bench", bootId: null, pidNamespace: null, pid: process.pid, startTicks: null };
  const workerId = await store.registerWorker(identity, { version: "bench", leaseMs });
  const rows: RunRow[] = [];
  for (let n = 0; n < count; n += 1) {
    const row = await store.claim(workerId);
    if (row) rows.push(row);
  }
  return rows;
}

/** Takes a claimed run through the real loop, from where its log stands, to its end or until it is stopped. */
export async function runThrough(store: Store, row: RunRow, load: Load): Promise<void> {
  const claim = { runId: row.id, workerId: row.ownerId ?? "", epoch: row.epoch };
  const protocol = nativeProtocol(profileOf(defaultBaseUrl));
  const log = openRunLog({ store, claim, protocol, activeMs: () => 0 });
  const tool = noop[load.toolClass ?? "pure"];
  if (row.promptHash === null) await begin({ store, row, claim, log, tool });
  else log.load(await store.loadTail(row.id, row.promptHash));
  try {
    const ended = await runAgent(createAgent({ row, log, tool, protocol, load }));
    if (!("outcome" in ended)) throw new Error("the run did not end");
    const products = { tree: null, headCommit: null, branch: null, changedFiles: null };
    await store.finish(claim, { ...ended.outcome, activeMs: 0, ...products });
  } catch (error) {
    if (!(error instanceof RunAborted)) throw error;
    await store.release(claim, 0);
  }
}

async function begin(input: { store: Store; row: RunRow; claim: Claim; log: RunLog; tool: Tool }) {
  const { store, row, claim, log, tool } = input;
  const { name, description, parameters } = tool;
  const prompt = { system: "You are measured.", tools: [{ name, description, parameters }] };
  const hash = await store.begin(claim, {
    prompt: JSON.stringify(prompt),
    spec: row.spec,
    model: "scripted",
    baseCommit: null,
    baseTree: null,
  });
  log.start(prompt, hash, { role: "user", content: "step" });
}

function createAgent(input: { row: RunRow; log: RunLog; tool: Tool; protocol: Protocol; load: Load }): Agent {
  const { row, log, tool, protocol, load } = input;
  const model = steppingModel(load.steps, load.payload ?? "");
  return {
    log,
    model: {
      ask: (request, signal) => {
        load.onRequest?.(log.state.steps);
        return model.ask(request, signal);
      },
    },
    protocol,
    tools: [tool],
    logger: silentLogger,
    modelName: "scripted",
    maxSteps: 1_000_000,
    budgetTokens: load.contextTokens,
    maxOutputTokens: 1000,
    signal: new AbortController().signal,
    isStopping: load.isStopping ?? (() => false),
    contextOf: ({ step, ordinal }) => ({
      runId: row.id,
      callId: `${step}.${ordinal}`,
      epoch: row.epoch,
      key: "",
      workspace: "",
      outputs: "",
      calls: "",
      environment: localEnvironment(),
      env: {},
      commandSilenceMs: 120_000,
      commandTimeoutMs: 1000,
      maxResultChars: 50_000,
      signal: new AbortController().signal,
    }),
  };
}
