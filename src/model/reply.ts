import { ModelError } from "../errors.ts";
import { isPage } from "./error-facts.ts";
import { modelErrorOf, oneLine, placeOf } from "./failure.ts";
import { isObject } from "./json.ts";
import type { ModelReply, ReplyMessage, Usage } from "./model.ts";

/** Where a body came from. */
export interface Answered {
  headers: Headers;
  baseUrl: string;
  redact(text: string): string;
}

/** The reply in the body of a success, given as its text where it is no JSON. Throws ModelError where there is none. */
export function readReply(body: unknown, { headers, baseUrl, redact }: Answered): ModelReply {
  if (!isObject(body)) {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const got = oneLine(redact(text)) || "an empty body";
    // Half a body may be whole the next time; a web page is what stands at this address.
    throw new ModelError(
      isPage(text) ? "invalid" : "retry",
      `expected a chat completion from ${placeOf(baseUrl)}, got ${got} (check OPENAI_BASE_URL)`,
    );
  }
  const choice: unknown = Array.isArray(body.choices) ? body.choices[0] : undefined;
  const error = errorIn(body, choice);
  if (error !== undefined) {
    const hasBegun = isObject(choice) && isObject(choice.message) && Object.keys(choice.message).length > 0;
    throw modelErrorOf({ status: 200, body: { error }, headers, baseUrl, hasBegun }, redact);
  }
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

/** The error that came with status 200: in the body, in the choice, as the body itself, or only named. */
function errorIn(body: Record<string, unknown>, choice: unknown): unknown {
  const own = body.error ?? (isObject(choice) ? choice.error : undefined);
  if (own) return own;
  if (isObject(choice)) {
    return choice.finish_reason === "error" ? "the reply ended with an error of the provider" : undefined;
  }
  return "message" in body || "detail" in body || "msg" in body ? body : undefined;
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
