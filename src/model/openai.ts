import OpenAI, { APIConnectionError, APIError } from "openai";
import type { ChatCompletionCreateParamsNonStreaming } from "openai/resources/chat/completions";
import { ModelError, messageOf } from "../errors.ts";
import { requireEndpoint } from "./endpoint.ts";
import { isObject, isPage, modelErrorOf, oneLine, placeOf } from "./failure.ts";
import type { Model, ModelReply, ModelRequest, ReplyMessage, ToolSchema, Usage } from "./model.ts";
import { allowsStop, type Profile, profileOf } from "./profiles.ts";

export interface OpenaiOptions {
  /** Such as `https://api.openai.com/v1`. */
  baseUrl: string;
  /** Null or empty for a server that needs none. */
  apiKey: string | null;
  /** From sending the request to the last byte of the reply. */
  timeoutMs?: number | undefined;
  /** Guessed from the base URL if left out. */
  profile?: Profile;
}

const defaultTimeoutMs = 300_000;
const maxReplyBytes = 32 * 1024 * 1024;

/**
 * A model behind an OpenAI-compatible server. One request a question: asking again is the agent's work (`agent/request.ts`). Throws
 * ConfigError at once for a base URL or key that no request could carry. The key is in no error's message.
 */
export function openaiModel(options: OpenaiOptions): Model {
  const apiKey = options.apiKey?.trim() || null;
  requireEndpoint(options.baseUrl, apiKey);
  const profile = options.profile ?? profileOf(options.baseUrl);
  const timeoutMs = options.timeoutMs ?? defaultTimeoutMs;
  const redact = (text: string) => (apiKey ? text.replaceAll(apiKey, "[key]") : text);
  const client = new Client({
    baseURL: options.baseUrl,
    apiKey: apiKey ?? "none",
    adminAPIKey: null,
    defaultHeaders: apiKey ? {} : { Authorization: null },
    maxRetries: 0,
    timeout: timeoutMs,
    logLevel: "off",
  });
  return {
    ask: (request, signal) =>
      withDeadline({ signal, timeoutMs, place: placeOf(options.baseUrl) }, async (deadline) => {
        try {
          const { response, text } = await send(client, requestBody(request, profile), deadline);
          return readReply(text, { headers: response.headers, baseUrl: options.baseUrl, redact });
        } catch (error) {
          throw error instanceof ModelError ? error : toModelError(error, options.baseUrl, redact);
        }
      }),
  };
}

/** The SDK's errors keep only the `error` member of a body; servers put the reason elsewhere too. */
class Client extends OpenAI {
  protected override makeStatusError(
    status: number,
    body: object | undefined,
    text: string | undefined,
    headers: Headers,
  ): APIError {
    return new APIError(status, body ?? { message: text ?? "" }, text, headers);
  }
}

/** Ends `work` at an abort (rejects with its reason) or after `timeoutMs` (rejects with ModelError `retry`). */
async function withDeadline<T>(
  { signal, timeoutMs, place }: { signal: AbortSignal; timeoutMs: number; place: string },
  work: (deadline: AbortSignal) => Promise<T>,
): Promise<T> {
  signal.throwIfAborted();
  const controller = new AbortController();
  const abort = () => controller.abort(signal.reason);
  const timer = setTimeout(() => {
    const error = `no complete reply from ${place} within ${timeoutMs} ms (requestTimeoutMs)`;
    controller.abort(new ModelError("retry", error));
  }, timeoutMs);
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await work(controller.signal);
  } catch (error) {
    throw controller.signal.aborted ? controller.signal.reason : error;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", abort);
  }
}

function requestBody(request: ModelRequest, profile: Profile): ChatCompletionCreateParamsNonStreaming {
  const { model, messages, tools = [], maxOutputTokens, stop } = request;
  return {
    model,
    messages,
    ...(tools.length > 0 && { tools: tools.map(toolBody) }),
    ...(maxOutputTokens !== undefined && { [profile.tokensParameter]: maxOutputTokens }),
    ...(stop && allowsStop(profile, model) && { stop }),
  };
}

function toolBody({ name, description, parameters }: ToolSchema) {
  return { type: "function" as const, function: { name, description, parameters } };
}

/** The body is read here and not by the SDK, which trusts the content type and drops what is no JSON. */
async function send(
  client: OpenAI,
  body: ChatCompletionCreateParamsNonStreaming,
  signal: AbortSignal,
): Promise<{ response: Response; text: string }> {
  const response = await client.chat.completions.create(body, { signal }).asResponse();
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  try {
    for await (const chunk of response.body ?? []) {
      bytes += chunk.byteLength;
      if (bytes > maxReplyBytes) break;
      text += decoder.decode(chunk, { stream: true });
    }
  } catch (error) {
    throw new ModelError("retry", `the connection broke after ${bytes} bytes of the reply`, { cause: error });
  }
  if (bytes > maxReplyBytes) throw new ModelError("retry", `the reply is longer than ${maxReplyBytes} bytes`);
  return { response, text: text + decoder.decode() };
}

interface Answered {
  headers: Headers;
  baseUrl: string;
  redact: (text: string) => string;
}

function readReply(text: string, { headers, baseUrl, redact }: Answered): ModelReply {
  const body = parseJson(text);
  if (!isObject(body)) {
    const got = oneLine(redact(text)) || "an empty body";
    // Half a body may be whole the next time; a web page is what stands at this address.
    throw new ModelError(
      isPage(text) ? "invalid" : "retry",
      `expected a chat completion from ${placeOf(baseUrl)}, got ${got} (check OPENAI_BASE_URL)`,
    );
  }
  const choice: unknown = Array.isArray(body.choices) ? body.choices[0] : undefined;
  const error = body.error ?? (isObject(choice) ? choice.error : undefined);
  if (error) throw modelErrorOf({ status: 200, body: { error }, headers, baseUrl }, redact);
  if (!isObject(choice) || !isObject(choice.message)) {
    throw new ModelError("retry", "the model server answered without any choice");
  }
  return {
    message: { ...choice.message, role: "assistant" } as ReplyMessage,
    finishReason: textOrNull(choice.finish_reason),
    usage: readUsage(body.usage),
    responseId: textOrNull(body.id),
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function readUsage(value: unknown): Usage {
  const usage = isObject(value) ? value : {};
  const prompt = isObject(usage.prompt_tokens_details) ? usage.prompt_tokens_details : {};
  const completion = isObject(usage.completion_tokens_details) ? usage.completion_tokens_details : {};
  return {
    promptTokens: countOrNull(usage.prompt_tokens),
    completionTokens: countOrNull(usage.completion_tokens),
    cachedTokens: countOrNull(prompt.cached_tokens ?? usage.prompt_cache_hit_tokens ?? usage.cached_tokens),
    reasoningTokens: countOrNull(completion.reasoning_tokens),
  };
}

function countOrNull(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? Math.round(value) : null;
}

function textOrNull(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

/** The SDK's own error is not kept as the cause: it carries the whole body, where a server may have repeated the key. */
function toModelError(error: unknown, baseUrl: string, redact: (text: string) => string): ModelError {
  if (error instanceof APIConnectionError) {
    const reason = oneLine(redact(rootMessage(error)));
    return new ModelError("retry", `cannot reach the model server at ${new URL(baseUrl).origin}: ${reason}`);
  }
  if (error instanceof APIError && error.status !== undefined) {
    const headers = error.headers ?? new Headers();
    return modelErrorOf({ status: error.status, body: error.error, headers, baseUrl }, redact);
  }
  return new ModelError(
    "invalid",
    `the model request could not be sent: ${oneLine(redact(messageOf(error)))}`,
  );
}

const maxCauses = 5;

/** What is at the bottom of "fetch failed": the network's own words. */
function rootMessage(error: Error): string {
  let root = error;
  for (let depth = 0; depth < maxCauses && root.cause instanceof Error; depth += 1) root = root.cause;
  const code = "code" in root && typeof root.code === "string" ? root.code : "";
  return root.message || code || root.name;
}
