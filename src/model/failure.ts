import { ModelError, type ModelErrorKind, type Unsupported } from "../errors.ts";
import { type ErrorFacts, isPage, readErrorFacts } from "./error-facts.ts";
import { keyVariablesOf } from "./profiles.ts";
import { isLimitStatus, retryAfterMs } from "./retry-after.ts";

/** A response that is no answer. */
interface FailedResponse {
  /** HTTP status; 200 where the error came in the body of a success. */
  status: number;
  /** The parsed body, or its text where it is not JSON. */
  body: unknown;
  headers: Headers;
  baseUrl: string;
  /** Whether a part of a reply had come before. */
  hasBegun: boolean;
}

const maxDetailChars = 500;
/** Of an HTML page this much is looked at, and this much of its words is said. */
const maxPageChars = 20_000;
const maxPageWordsChars = 80;

/**
 * What a failed response means, from its status and its own error members; nothing of the conversation is looked at.
 * `redact` is applied to whatever the server says, before anything is cut.
 */
export function modelErrorOf(response: FailedResponse, redact: (text: string) => string): ModelError {
  const facts = readErrorFacts(response.body);
  const status = response.status === 200 ? (facts.status ?? 200) : response.status;
  const detail = oneLine(redact(facts.message)) || "no details";
  const unsupported = status >= 400 ? unsupportedOf(facts) : undefined;
  const kind = unsupported === undefined ? kindOf(status, facts) : "invalid";
  const hint = hintOf(kind, status, response.baseUrl);
  const waitMs = retryAfterMs(response.headers, Date.now(), status === 429) ?? facts.retryAfterMs;
  return new ModelError(kind, `the model server answered ${status}: ${detail}${hint}`, {
    retryAfterMs: waitMs,
    isLimit: kind === "retry" && isLimitStatus(status, waitMs),
    mayBeBilled: response.hasBegun || mayBeBilled(status),
    unsupported,
  });
}

/** A base URL as messages show it: what follows a question mark may be secret. */
export function placeOf(baseUrl: string): string {
  const { origin, pathname } = new URL(baseUrl);
  return `${origin}${pathname}`;
}

/** A text from outside, fit for one line of a message. */
export function oneLine(text: string): string {
  if (isPage(text)) return `an HTML page${wordsOfPage(text)}`;
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > maxDetailChars ? `${line.slice(0, maxDetailChars)}…` : line;
}

/** The first words that a browser would show, in brackets. */
function wordsOfPage(page: string): string {
  const words = page
    .slice(0, maxPageChars)
    .replace(/<(script|style)\b.*?(<\/\1>|$)/gis, " ")
    .replace(/<[^>]*(>|$)/g, " ")
    .replace(/\s+/g, " ")
    .trim();
  if (words === "") return "";
  return ` (${words.length > maxPageWordsChars ? `${words.slice(0, maxPageWordsChars).toWellFormed()}…` : words})`;
}

function hintOf(kind: ModelErrorKind, status: number, baseUrl: string): string {
  if (status === 404) {
    const isBare = new URL(baseUrl).pathname === "/";
    return ` (check the base URL${isBare ? ", which mostly ends in /v1," : ""} and the name of the model)`;
  }
  if (status >= 300 && status < 400) return ` (a redirection: check OPENAI_BASE_URL)`;
  return kind === "auth" ? ` (check ${keyVariablesOf(baseUrl).join(" or ")} for ${placeOf(baseUrl)})` : "";
}

const quotaCodes =
  /insufficient_quota|billing_(hard_limit|error)|insufficient_(balance|credits)|exceeded_current_quota|arrearage|accountoverdue|quota_?exceeded|setlimitexceeded|perday|^(1113|1304|1308|1309|1310|1311|1313)$/;
const quotaMessage = /credit balance is too low|insufficient (account )?balance|key limit exceeded/i;
const authCodes = /invalid_?api_?key|api_key_invalid|(invalid_)?authentication|unauthenticated|^100[0-4]$/;
const overflowCodes = /context_length|context_window|exceed_context_size|request_too_large|^1261$/;
const refusedCodes =
  /content_filter|content_policy|responsibleaipolicy|data_inspection_failed|sensitivecontent|prohibited_content|^1301$/;
const invalidCodes = /invalid_request|invalid_?parameter|not_found/;
const overflowMessage =
  /maximum context length|context (length|window|size)|prompt (is too long|exceeds max length)|input (is|length|token count).*(too long|exceed)|range of input length|reduce the length of the (messages|prompt)|^request too large/i;
const refusedMessage =
  /content exists risk|content management policy|flagged by .*moderation|your input was flagged/i;
const toolsMessage =
  /not support (native )?(tool|function)|support(s|ing)? tool (use|calling)|(tool|function)[ _-]?(s|use|call(s|ing)?)\W* (is|are) not supported|--enable-auto-tool-choice|--tool-call-parser|tools param requires --jinja/i;
const streamMessage = /\bstream(ing)?\b.*(not support|unsupported|must be verified)|verified to stream/i;

function unsupportedOf({ spoken, members }: ErrorFacts): Unsupported | undefined {
  if (members.includes("stream_options") || spoken.includes("stream_options")) return "stream_options";
  if (toolsMessage.test(spoken)) return "tools";
  return members.includes("stream") || streamMessage.test(spoken) ? "stream" : undefined;
}

function kindOf(status: number, { codes, spoken }: ErrorFacts): ModelErrorKind {
  const has = (pattern: RegExp) => codes.some((code) => pattern.test(code));
  if (status === 402 || has(quotaCodes) || quotaMessage.test(spoken)) return "quota";
  if (status === 401 || has(authCodes)) return "auth";
  if (has(overflowCodes) || status === 413 || overflowMessage.test(spoken)) return "overflow";
  if (has(refusedCodes) || refusedMessage.test(spoken)) return "refused";
  if (status === 403) return "auth";
  if ([408, 409, 425, 429].includes(status) || status >= 500) return "retry";
  return status >= 300 || has(invalidCodes) ? "invalid" : "retry";
}

/** Statuses of a gateway that gave up waiting: behind it the work may have been done. */
const statusesOfGateways = [408, 499, 502, 504, 520, 522, 524];

function mayBeBilled(status: number): boolean {
  return status < 300 || statusesOfGateways.includes(status);
}
