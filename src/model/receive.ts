import type { IncomingMessage } from "node:http";
import { ModelError } from "../errors.ts";
import { createEventStream } from "./event-stream.ts";
import type { Delta } from "./model.ts";

/** Of a reply this much is held. */
const maxReplyBytes = 32 * 1024 * 1024;
/** What may follow the end of a stream, the count of tokens above all, is awaited this long. */
const maxTailMs = 5_000;

/** What came: a text, or the body of a completion put together from a stream. */
export type Received = { text: string } | { body: Record<string, unknown>; isWhole: boolean };

export interface Reading {
  /** Told of everything that comes; `isToken` where it is a piece of the reply itself. */
  heard(isToken: boolean): void;
  onDelta?: ((delta: Delta) => void) | undefined;
  /** Applied to what the server said before it is repeated. */
  redact(text: string): string;
}

/**
 * Reads a response to its end, as text or as a stream of events, whichever it is: content types are not to be trusted, and
 * some servers answer in one piece whatever was asked. Throws ModelError for one that breaks off or is too long.
 */
export async function receive(response: IncomingMessage, reading: Reading): Promise<Received> {
  const decoder = new TextDecoder();
  const stream = createEventStream(reading);
  let text = "";
  let bytes = 0;
  let isStream: boolean | undefined;
  let tail: NodeJS.Timeout | undefined;
  try {
    for await (const chunk of response.iterator({ destroyOnReturn: false })) {
      const piece = decoder.decode(chunk, { stream: true });
      bytes += piece.length;
      text += piece;
      isStream ??= looksLikeStream(text);
      reading.heard(isStream === false);
      if (isStream && piece.includes("\n")) text = stream.take(text);
      if (stream.isEnded()) break;
      if (stream.isFinished()) tail ??= setTimeout(() => response.destroy(), maxTailMs);
      if (text.length > maxReplyBytes || stream.heldChars(bytes, maxReplyBytes) > maxReplyBytes) {
        throw new ModelError("retry", `the reply is longer than ${maxReplyBytes} bytes`);
      }
    }
    if (isStream && !stream.isEnded()) stream.take(`${text}\n`);
  } catch (error) {
    response.destroy();
    if (error instanceof ModelError) throw error;
    if (!stream.isFinished()) {
      const message = `the connection broke after ${bytes} bytes of the reply`;
      throw new ModelError("retry", message, { cause: error });
    }
  } finally {
    clearTimeout(tail);
    release(response);
  }
  if (!isStream) return { text: text + decoder.decode() };
  return { body: stream.body(), isWhole: stream.isEnded() || stream.isFinished() };
}

/** Undefined while too little has come to tell. */
function looksLikeStream(text: string): boolean | undefined {
  const start = text.trimStart();
  if (/^(data|event|id|retry)?:/.test(start)) return true;
  const isBeginning = ["data:", "event:", "id:", "retry:"].some((word) => word.startsWith(start));
  return isBeginning ? undefined : false;
}

/** Lets the rest pass, so that the connection can be used again. */
function release(response: IncomingMessage): void {
  const timer = setTimeout(() => response.destroy(), maxTailMs);
  timer.unref();
  response.on("error", () => {});
  response.once("close", () => clearTimeout(timer));
  response.resume();
}
