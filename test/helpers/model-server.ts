import { setTimeout as delay } from "node:timers/promises";
import { type ChatCompletionRequest, LLMock } from "@copilotkit/aimock";

/** What the server answers; `arguments` is JSON text or a value to be encoded. */
interface ServerReply {
  content?: string;
  toolCalls?: { name: string; arguments: unknown; id?: string }[];
  reasoning?: string;
  finishReason?: string;
  usage?: Record<string, unknown>;
  /** Answers with this instead. `retryAfter` is in seconds and sent with a 429. */
  error?: { status: number; message: string; code?: string; retryAfter?: number };
  delayMs?: number;
}

/** Decides from the body of the request; `requestNumber` starts at 1. */
export type ServerScript = (
  body: ChatCompletionRequest,
  requestNumber: number,
) => ServerReply | Promise<ServerReply>;

export interface ModelServer {
  /** Base URL, with `/v1`; any process of this machine may use it. */
  url: string;
  /** Bodies of all requests so far, oldest first. */
  requests: ChatCompletionRequest[];
  close(): Promise<void>;
}

/** Starts an OpenAI-compatible server on a free port of 127.0.0.1 that answers as the script says. */
export async function startModelServer(script: ServerScript): Promise<ModelServer> {
  const requests: ChatCompletionRequest[] = [];
  const server = new LLMock({ port: 0, host: "127.0.0.1" });
  server.on({ endpoint: "chat" }, async (request) => {
    const { _endpointType, ...rest } = request;
    const body = { ...rest, model: request.model, messages: request.messages };
    requests.push(body);
    const reply = await script(body, requests.length);
    if (reply.delayMs) await delay(reply.delayMs);
    return toFixture(reply);
  });
  await server.start();
  return { url: `${server.url}/v1`, requests, close: () => server.stop() };
}

function toFixture({ error, toolCalls, content, reasoning, finishReason, usage }: ServerReply) {
  if (error) {
    const { status, retryAfter, ...rest } = error;
    return { error: rest, status, ...(retryAfter !== undefined && { retryAfter }) };
  }
  const overrides = {
    ...(reasoning !== undefined && { reasoning }),
    ...(finishReason !== undefined && { finishReason }),
    ...(usage && { usage }),
  };
  if (!toolCalls) return { content: content ?? "", ...overrides };
  const calls = toolCalls.map((call) => ({
    ...call,
    arguments: typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments),
  }));
  return content === undefined
    ? { toolCalls: calls, ...overrides }
    : { content, toolCalls: calls, ...overrides };
}
