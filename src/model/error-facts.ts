import { isObject, parseJson } from "./json.ts";
import { retryAfterMs } from "./retry-after.ts";

/** What an error body says. */
export interface ErrorFacts {
  /** For people, as the server put it. */
  message: string;
  /** What the server says in words of its own; empty where it only repeats what it got. Nothing else is searched. */
  spoken: string;
  /** Codes and types, in lower case. */
  codes: string[];
  /** Names of the request's members that the error is about. */
  members: string[];
  /** An HTTP status that stands in the body, as routers put it. */
  status: number | undefined;
  /** How long the body asks to wait. */
  retryAfterMs: number | undefined;
}

type Members = Record<string, unknown>;

/** Servers repeat parts of the request in their messages, behind their own words. */
const maxSpokenChars = 300;

/** Error bodies come as `{error: {…}}`, `{error: "…"}`, `[{error: …}]`, `{message, type}`, `{detail}` or plain text. */
export function readErrorFacts(body: unknown): ErrorFacts {
  const outer = Array.isArray(body) ? body[0] : body;
  const error = isObject(outer) ? (outer.error ?? outer) : outer;
  if (!isObject(error)) {
    const message = asText(error);
    return { ...nothing, message, spoken: isPage(message) ? "" : message.slice(0, maxSpokenChars) };
  }
  const own = readOwnFacts(error);
  const passedOn = passedOnError(error);
  if (passedOn === undefined) return own;
  const theirs = readErrorFacts(passedOn);
  return {
    ...own,
    message: theirs.message || own.message,
    spoken: theirs.spoken || own.spoken,
    codes: [...own.codes, ...theirs.codes],
    members: [...own.members, ...theirs.members],
  };
}

const nothing = { codes: [], members: [], status: undefined, retryAfterMs: undefined };

function readOwnFacts(error: Members): ErrorFacts {
  const details = Array.isArray(error.details) ? error.details.filter(isObject) : [];
  const inner = isObject(error.innererror) ? error.innererror.code : undefined;
  const named = [error.code, error.type, error.status, inner, ...details.flatMap(codesOfDetail)];
  const number = Number(error.code ?? error.status);
  const said = error.message ?? error.detail ?? error.msg ?? error;
  return {
    message: speak(said) || asText(said),
    spoken: speak(said).slice(0, maxSpokenChars),
    codes: named.flatMap((code) =>
      ["string", "number"].includes(typeof code) ? [String(code).toLowerCase()] : [],
    ),
    members: [error.param, ...placesOf(said)].filter((member) => typeof member === "string"),
    status: number >= 400 && number <= 599 ? number : undefined,
    retryAfterMs: waitOf(error, details),
  };
}

/** Google says in a list of details what its status leaves open. */
function codesOfDetail(detail: Members): unknown[] {
  const violations = Array.isArray(detail.violations) ? detail.violations.filter(isObject) : [];
  return [detail.reason, ...violations.map(({ quotaId }) => quotaId)];
}

/** A router's error holds the error of the provider behind it, as text. */
function passedOnError({ metadata }: Members): unknown {
  if (!isObject(metadata) || typeof metadata.raw !== "string" || metadata.raw === "") return undefined;
  return parseJson(metadata.raw) ?? metadata.raw;
}

function waitOf(error: Members, details: Members[]): number | undefined {
  const delay = details.map(({ retryDelay }) => retryDelay).find((value) => typeof value === "string");
  const seconds = Number.parseFloat(delay ?? "");
  if (seconds >= 0) return seconds * 1_000;
  const headers = isObject(error.metadata) && isObject(error.metadata.headers) ? error.metadata.headers : {};
  return retryAfterMs(
    new Headers(Object.entries(headers).map(([name, value]) => [name, String(value)])),
    Date.now(),
  );
}

/** A message, or the messages of a list of problems, without the input that stands beside them. */
function speak(value: unknown): string {
  if (typeof value === "string") return value;
  if (Array.isArray(value)) return value.map(speakProblem).filter(Boolean).join("; ");
  if (!isObject(value)) return "";
  return speak(value.message ?? value.detail ?? value.msg ?? "");
}

function speakProblem(problem: unknown): string {
  if (!isObject(problem)) return speak(problem);
  const place = Array.isArray(problem.loc) ? `${problem.loc.join(".")}: ` : "";
  const text = speak(problem);
  return text === "" ? "" : `${place}${text}`;
}

function placesOf(value: unknown): unknown[] {
  if (isObject(value)) return placesOf(value.message ?? value.detail ?? []);
  if (!Array.isArray(value)) return [];
  return value.flatMap((problem) => (isObject(problem) && Array.isArray(problem.loc) ? problem.loc : []));
}

/** Whether a text is a web page. */
export function isPage(text: string): boolean {
  return /^\s*<(!doctype html|html|head|body|!--)/i.test(text);
}

function asText(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}
