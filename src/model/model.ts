import type { ChatCompletionMessageParam } from "openai/resources/chat/completions";
import type { ModelParameters } from "../config/model-parameters.ts";

/** A message as it goes over the wire. */
export type ChatMessage = ChatCompletionMessageParam;

/** A tool call as it came: `arguments` is JSON text that may not parse. Unknown members are kept. */
export interface WireToolCall {
  id?: string | null;
  type?: string;
  function: { name: string; arguments: string };
  [member: string]: unknown;
}

/** The model's message exactly as it came, member for member. */
export interface ReplyMessage {
  role: "assistant";
  content?: unknown;
  tool_calls?: WireToolCall[] | null;
  refusal?: string | null;
  reasoning_content?: string | null;
  [member: string]: unknown;
}

/** A tool as the model is told of it. `parameters` is JSON Schema. */
export interface ToolSchema {
  name: string;
  description: string;
  parameters: Record<string, unknown>;
}

export interface ModelRequest {
  model: string;
  messages: ChatMessage[];
  /** Left out, never empty, when there are none. */
  tools?: ToolSchema[];
  /** Upper bound of the reply, in tokens. */
  maxOutputTokens?: number;
  /** Texts at which a reply may end, where the provider takes any: nobody relies on it. */
  stop?: string[];
  /** What else was asked for; the limit that holds is the one above. */
  parameters?: ModelParameters;
  /** Told of each piece of the reply where it comes in pieces. Nothing of them is stored: the reply is what counts. */
  onDelta?: (delta: Delta) => void;
}

/** A piece of a reply: what it adds to each, or empty texts. */
export interface Delta {
  text: string;
  reasoning: string;
  /** Names and arguments of tool calls. */
  call: string;
}

/** Tokens of one call; null where the server did not say. */
export interface Usage {
  promptTokens: number | null;
  completionTokens: number | null;
  cachedTokens: number | null;
  reasoningTokens: number | null;
}

/** Where nobody counted. */
export const noUsage: Usage = {
  promptTokens: null,
  completionTokens: null,
  cachedTokens: null,
  reasoningTokens: null,
};

/** Of a request that the provider did nothing for. */
export const unbilled: Pick<ModelReply, "usage" | "responseId"> = {
  usage: { promptTokens: 0, completionTokens: 0, cachedTokens: 0, reasoningTokens: 0 },
  responseId: null,
};

export interface ModelReply {
  message: ReplyMessage;
  finishReason: string | null;
  usage: Usage;
  responseId: string | null;
}

/** Something that answers a request. Throws ModelError; an abort rejects with the signal's reason. */
export interface Model {
  ask(request: ModelRequest, signal: AbortSignal): Promise<ModelReply>;
}
