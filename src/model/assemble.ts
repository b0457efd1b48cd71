import { isObject } from "./json.ts";
import { mergeDelta } from "./merge-delta.ts";
import type { Delta } from "./model.ts";

type Members = Record<string, unknown>;

/** A completion that comes in chunks. */
export interface Assembly {
  /** Adds a chunk; gives what it brought, empty texts where that is nothing. */
  add(chunk: Members): Delta & { isToken: boolean };
  /** Whether the server said why it ended. */
  isFinished(): boolean;
  /** Whether a chunk was an error. */
  hasFailed(): boolean;
  /** The body that the same completion would have had in one piece. */
  body(): Members;
}

export function createAssembly(): Assembly {
  const message: Members = {};
  let id: unknown;
  let usage: unknown;
  let error: unknown;
  let finishReason: unknown = null;
  let hasChoice = false;
  let hasDelta = false;

  function addChoice(choice: Members) {
    hasChoice = true;
    if (choice.finish_reason) finishReason = choice.finish_reason;
    usage = choice.usage ?? usage;
    error ||= choice.error;
    // Some servers send the whole message, instead of deltas or once more after them.
    const delta = isObject(choice.delta) ? choice.delta : hasDelta ? undefined : choice.message;
    if (!isObject(delta)) return {};
    hasDelta = true;
    mergeDelta(message, delta);
    return delta;
  }

  return {
    add(chunk) {
      id ||= chunk.id;
      error ||= chunk.error;
      usage = chunk.usage ?? (isObject(chunk.x_groq) ? chunk.x_groq.usage : undefined) ?? usage;
      const choices = Array.isArray(chunk.choices) ? chunk.choices.filter(isObject) : [];
      const choice = choices.find(({ index }) => index === 0 || index === undefined);
      const brought = deltaOf(choice === undefined ? {} : addChoice(choice));
      const isToken = Object.values(brought).some((text) => text !== "") || finishReason !== null;
      return { ...brought, isToken };
    },
    isFinished: () => finishReason !== null,
    hasFailed: () => Boolean(error),
    body: () => ({
      id,
      usage,
      error,
      choices: hasChoice ? [{ index: 0, message: withoutNumbers(message), finish_reason: finishReason }] : [],
    }),
  };
}

/** The texts in a delta. */
function deltaOf(delta: Members): Delta {
  const calls = Array.isArray(delta.tool_calls) ? delta.tool_calls.filter(isObject) : [];
  return {
    text: textOf(delta.content),
    reasoning: textOf(delta.reasoning_content ?? delta.reasoning),
    call: calls
      .map(({ function: called }) => (isObject(called) ? textOf(called.name) + textOf(called.arguments) : ""))
      .join(""),
  };
}

function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  if (!Array.isArray(value)) return "";
  return value.map((part) => (isObject(part) ? textOf(part.text ?? part.thinking) : "")).join("");
}

/** The numbers of calls only tell the pieces of a stream apart. */
function withoutNumbers(message: Members): Members {
  if (!Array.isArray(message.tool_calls)) return message;
  const calls = message.tool_calls.map((call: unknown) => {
    if (!isObject(call)) return call;
    const { index: _index, ...members } = call;
    return members;
  });
  return { ...message, tool_calls: calls };
}
