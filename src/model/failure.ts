import { ModelError, type ModelErrorKind } from "../errors.ts";

/** A response that is no answer. */
interface FailedResponse {
  /** HTTP status; 200 where the error came in the body of a success. */
  status: number;
  /** The parsed body, or its text where it is not JSON. */
  body: unknown;
  headers: Headers;
  baseUrl: string;
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
  const facts = readFacts(response.body);
  const status = response.status === 200 ? (facts.status ?? 200) : response.status;
  const detail = oneLine(redact(facts.message)) || "no details";
  const kind = kindOf(status, facts);
  const hint = hintOf(kind, status, response.baseUrl);
  return new ModelError(kind, `the model server answered ${status}: ${detail}${hint}`, {
    retryAfterMs: retryAfterMs(response.headers, Date.now()),
  });
}

/** A base URL as messages show it: what follows a question mark may be secret. */
export function placeOf(baseUrl: string): string {
  const { origin, pathname } = new URL(baseUrl);
  return `${origin}${pathname}`;
}

export function isPage(text: string): boolean {
  return /^\s*<(!doctype html|html|head|body|!--)/i.test(text);
}

/** A text from outside, fit for one line of a message. */
export function oneLine(text: string): string {
  if (isPage(text)) return `an HTML page${wordsOfPage(text)}`;
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > maxDetailChars ? `${line.slice(0, maxDetailChars)}…` : line;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
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
  if (status === 404) return " (check the base URL and the name of the model)";
  return kind === "auth" ? ` (check OPENAI_API_KEY for ${placeOf(baseUrl)})` : "";
}

interface Facts {
  message: string;
  /** Codes and types, in lower case. */
  codes: string[];
  /** An HTTP status that stands in the body, as routers put it. */
  status: number | undefined;
}

/** Error bodies come as `{error: {…}}`, `{error: "…"}`, `[{error: …}]`, `{message, type}`, `{detail}` or plain text. */
function readFacts(body: unknown): Facts {
  const outer = Array.isArray(body) ? body[0] : body;
  const error = isObject(outer) ? (outer.error ?? outer) : outer;
  if (!isObject(error)) return { message: asText(error), codes: [], status: undefined };
  const inner = isObject(error.innererror) ? error.innererror.code : undefined;
  const codes = [error.code, error.type, error.status, inner]
    .filter((code) => typeof code === "string")
    .map((code) => code.toLowerCase());
  const number = Number(error.code ?? error.status);
  return {
    message: asText(error.message ?? error.detail ?? error.msg ?? error),
    codes,
    status: number >= 400 && number <= 599 ? number : undefined,
  };
}

function asText(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}

const quotaCodes = /insufficient_quota|billing_hard_limit|insufficient_balance|insufficient_credits/;
const overflowCodes = /context_length|context_window|exceed_context_size/;
const refusedCodes =
  /content_filter|content_policy|responsibleaipolicy|data_inspection_failed|sensitivecontent/;
const overflowMessage =
  /maximum context length|context (length|window|size)|prompt is too long|input (is|length|token count).*(too long|exceed)|range of input length|reduce the length of the (messages|prompt)/i;
const refusedMessage = /content exists risk|content management policy|flagged by .*moderation/i;

function kindOf(status: number, { codes, message }: Facts): ModelErrorKind {
  const has = (pattern: RegExp) => codes.some((code) => pattern.test(code));
  if (status === 402 || has(quotaCodes)) return "quota";
  if (status === 401) return "auth";
  if (has(overflowCodes)) return "overflow";
  if (has(refusedCodes)) return "refused";
  if (status === 429) return "retry";
  if (status === 413 || overflowMessage.test(message)) return "overflow";
  if (refusedMessage.test(message)) return "refused";
  if (status === 403) return "auth";
  return status < 400 || [408, 409, 425].includes(status) || status >= 500 ? "retry" : "invalid";
}

/** The wait that headers ask for, in milliseconds: `retry-after-ms`, or `retry-after` in seconds or as a date. */
function retryAfterMs(headers: Headers, now: number): number | undefined {
  const exact = Number.parseFloat(headers.get("retry-after-ms") ?? "");
  if (exact >= 0) return exact;
  const text = headers.get("retry-after")?.trim() ?? "";
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text) * 1_000;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(0, at - now);
}
