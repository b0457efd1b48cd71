import type { FileHandle } from "node:fs/promises";
import { safeCut } from "./truncate.ts";

export interface PageRequest {
  /** First line, from 1. */
  offset: number;
  /** How many lines. */
  limit: number;
  /** First character of the first line, from 1. */
  column: number;
  maxChars: number;
  signal: AbortSignal;
}

export interface Page {
  text: string;
  /** Lines on the page, a cut one included; 0 where the file ends before. */
  lines: number;
  /** Lines before the page; all of the file's where the page is empty. */
  linesSkipped: number;
  /** Where the last line goes on if it did not fit; null if it is whole. */
  nextColumn: number | null;
  hasMore: boolean;
  isCrlf: boolean;
}

const chunkBytes = 64 * 1024;
const newline = 10;

/** Reads one page of a text file of any size with memory for the page alone. */
export async function readPage(handle: FileHandle, request: PageRequest): Promise<Page> {
  const start = await findLine(handle, request);
  const { text, isEnd } = await readFrom(handle, { ...request, position: start.position });
  const isCrlf = text.includes("\r\n");
  const visible = isCrlf ? text.replaceAll("\r\n", "\n") : text;
  return cutPage({ visible, isEnd, linesSkipped: start.line - 1, isCrlf }, request);
}

/** The byte at which line `offset` begins; the end of the file where there is none. */
async function findLine(
  handle: FileHandle,
  request: PageRequest,
): Promise<{ position: number; line: number }> {
  const buffer = Buffer.alloc(chunkBytes);
  let line = 1;
  let lineStart = 0;
  let position = 0;
  while (line < request.offset) {
    request.signal.throwIfAborted();
    const { bytesRead } = await handle.read(buffer, 0, chunkBytes, position);
    // The end: what follows the last line break counts as a line if there is anything.
    if (bytesRead === 0) return { position, line: position > lineStart ? line + 1 : line };
    const chunk = buffer.subarray(0, bytesRead);
    let at = chunk.indexOf(newline);
    while (at !== -1 && line < request.offset) {
      line += 1;
      lineStart = position + at + 1;
      at = chunk.indexOf(newline, at + 1);
    }
    position += bytesRead;
  }
  return { position: lineStart, line };
}

/** Text from a byte on, without its first `column - 1` characters, until it is enough for a page. */
async function readFrom(
  handle: FileHandle,
  options: PageRequest & { position: number },
): Promise<{ text: string; isEnd: boolean }> {
  const { maxChars, signal } = options;
  const decoder = new TextDecoder();
  const buffer = Buffer.alloc(chunkBytes);
  let position = options.position;
  let toSkip = options.column - 1;
  let text = "";
  // Two more: a carriage return that is dropped, and one character that shows that there is more.
  while (text.length < maxChars * 2 + 2) {
    signal.throwIfAborted();
    const { bytesRead } = await handle.read(buffer, 0, chunkBytes, position);
    if (bytesRead === 0) return { text: (text + decoder.decode()).slice(toSkip), isEnd: true };
    position += bytesRead;
    text += decoder.decode(buffer.subarray(0, bytesRead), { stream: true });
    const skipped = Math.min(toSkip, text.length);
    toSkip -= skipped;
    text = text.slice(skipped);
  }
  return { text, isEnd: false };
}

function cutPage(
  read: { visible: string; isEnd: boolean; linesSkipped: number; isCrlf: boolean },
  request: PageRequest,
): Page {
  const { visible, isEnd, linesSkipped, isCrlf } = read;
  const { limit, maxChars, column } = request;
  let end = 0;
  let lines = 0;
  while (lines < limit && end < visible.length) {
    const lineEnd = visible.indexOf("\n", end);
    const next = lineEnd === -1 ? visible.length : lineEnd + 1;
    if (next > maxChars || (lineEnd === -1 && !isEnd)) break;
    end = next;
    lines += 1;
  }
  if (lines === 0 && visible.length > 0) {
    // Not even one line fits: a part of it, and the place where it goes on.
    const cut = safeCut(visible, Math.min(maxChars, visible.length)) || visible.length;
    return {
      text: visible.slice(0, cut),
      lines: 1,
      linesSkipped,
      nextColumn: column + cut,
      hasMore: true,
      isCrlf,
    };
  }
  const hasMore = end < visible.length || !isEnd;
  return { text: visible.slice(0, end), lines, linesSkipped, nextColumn: null, hasMore, isCrlf };
}
