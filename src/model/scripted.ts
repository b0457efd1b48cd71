import { sleep } from "../sleep.ts";
import type { Model, ModelReply, ModelRequest, ReplyMessage, Usage } from "./model.ts";
import { estimateMessageTokens, estimateTokens } from "./tokens.ts";

export interface ScriptedCall {
  name: string;
  arguments: unknown;
}

/** What the script answers with; `delayMs` is waited first. */
export interface ScriptedReply {
  text?: string;
  calls?: ScriptedCall[];
  reasoning?: string;
  finishReason?: string;
  usage?: Partial<Usage>;
  delayMs?: number;
}

/** Says what to answer; an Error (best a ModelError) is thrown instead. `callNumber` starts at 1. */
export type Script = (
  request: ModelRequest,
  callNumber: number,
) => ScriptedReply | Error | Promise<ScriptedReply | Error>;

/** A scripted model and the requests it got, oldest first, at most the newest `maxKeptRequests`. */
export type ScriptedModel = Model & { requests: ModelRequest[]; callCount: () => number };

const maxKeptRequests = 10_000;

/**
 * A deterministic model for demonstrations and tests: the script decides, best from the messages alone, so that a run
 * that is resumed elsewhere gets the same answers. Ids and usage are made from the messages too.
 */
export function scriptedModel(script: Script): ScriptedModel {
  const requests: ModelRequest[] = [];
  let calls = 0;
  return {
    requests,
    callCount: () => calls,
    async ask(request, signal) {
      signal.throwIfAborted();
      calls += 1;
      requests.push(request);
      if (requests.length > maxKeptRequests) requests.shift();
      const reply = await script(request, calls);
      if (reply instanceof Error) throw reply;
      if (reply.delayMs) await sleep(reply.delayMs, signal);
      return toModelReply(reply, request);
    },
  };
}

/** A reply of prose: it ends the task. */
export function say(text: string): ScriptedReply {
  return { text };
}

/** A reply with one tool call. */
export function call(name: string, input: unknown): ScriptedReply {
  return calls([{ name, arguments: input }]);
}

/** A reply with several tool calls. */
export function calls(list: ScriptedCall[]): ScriptedReply {
  return { calls: list };
}

function toModelReply(reply: ScriptedReply, request: ModelRequest): ModelReply {
  const turn = request.messages.length;
  const toolCalls = (reply.calls ?? []).map(({ name, arguments: input }, index) => ({
    id: `call_${turn}_${index + 1}`,
    type: "function",
    function: { name, arguments: typeof input === "string" ? input : JSON.stringify(input) },
  }));
  const message: ReplyMessage = {
    role: "assistant",
    content: reply.text ?? null,
    ...(reply.reasoning !== undefined && { reasoning_content: reply.reasoning }),
    ...(toolCalls.length > 0 && { tool_calls: toolCalls }),
  };
  return {
    message,
    finishReason: reply.finishReason ?? (toolCalls.length > 0 ? "tool_calls" : "stop"),
    usage: {
      promptTokens: request.messages.reduce((sum, each) => sum + estimateMessageTokens(each), 0),
      completionTokens: estimateTokens(JSON.stringify(message)),
      cachedTokens: 0,
      reasoningTokens: estimateTokens(reply.reasoning ?? ""),
      ...reply.usage,
    },
    responseId: `scripted_${turn}`,
  };
}
