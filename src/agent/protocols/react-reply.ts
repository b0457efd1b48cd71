import { hasFenceAfter, isQuoted, openingPattern, readFence } from "./fences.ts";
import { readLooseObject } from "./loose-json.ts";

/** What stands behind an action: an object as JSON, bare text, nothing, or something that cannot be read. */
export type ReactInput =
  | { kind: "object"; json: string }
  | { kind: "text"; text: string }
  | { kind: "none" }
  | { kind: "unreadable" };

/**
 * What a reply says. `kept` is the part of it that counts and is sent back: nothing behind an action's input, and no
 * Observation of the model's own making.
 */
export type ReactReply = { kept: string } & (
  | { kind: "action"; name: string; input: ReactInput; thought: string }
  | { kind: "final"; text: string }
  | { kind: "none" }
);

/**
 * Reads a reply by its labels. They count at the beginning of a line only, outside of code blocks, thoughts and an action's
 * input. The first action or final answer decides, and all that follows a final answer belongs to it.
 */
export function readReactReply(reply: string): ReactReply {
  const text = unwrap(reply);
  const label = findDecision(text, 0);
  if (!label) return { kind: "none", kept: text };
  const before = text.slice(0, label.start);
  if (label.word === "final answer") return { kind: "final", text: text.slice(label.end).trim(), kept: text };
  const ownWords = text.slice(0, endOfWords(text, label.start)).trimEnd();
  if (label.word !== "action") return { kind: "none", kept: ownWords };
  const { name, input, end } = readAction(text, label.end);
  const kept = end === null ? ownWords : text.slice(0, end).trimEnd();
  return {
    kind: "action",
    name: name.replace(/^functions\./, ""),
    input,
    thought: withoutLabel(before),
    kept,
  };
}

/** Some models put the whole of a reply into one code block. */
function unwrap(reply: string): string {
  const opened = new RegExp(`^(?:${openingPattern})`, "i").exec(reply);
  if (opened?.[2] === undefined) return reply;
  const fence = readFence(reply, opened);
  return fence.isClosed && reply.slice(fence.end).trim() === "" ? fence.body : reply;
}

interface Label {
  word: string;
  start: number;
  end: number;
}

/** `Action:`, also as `**Action:**`, `Action 2:` or `action:`. */
const labelPattern =
  "(?<![^\\n])[ \\t]{0,12}(?:[*_#>-]{1,4}[ \\t]{0,4})?(thought|action[ _]?input|action|observation|final[ _]?answer)(?:[ \\t]{1,4}\\d{1,3})?[ \\t]{0,4}[*_]{0,3}[ \\t]{0,4}[:：][*_]{0,3}";

/** The first label that decides, from `from` on: no thought, and no `Action: None`. */
function findDecision(text: string, from: number): Label | undefined {
  const pattern = new RegExp(`${openingPattern}|${labelPattern}`, "gi");
  pattern.lastIndex = from;
  // Ends: each round begins behind what the one before found.
  for (let found = pattern.exec(text); found; found = pattern.exec(text)) {
    const word = found[4]?.toLowerCase().replace("_", " ");
    if (word === undefined) {
      if (found[2] !== undefined || !isQuoted(text, found.index))
        pattern.lastIndex = readFence(text, found).end;
    } else if (word !== "thought") {
      const isNone = word === "action" && matchAt(text, /\s*none\s*(?:\n|$)/iy, pattern.lastIndex) !== null;
      if (!isNone) return { word, start: found.index, end: pattern.lastIndex };
    }
  }
  return undefined;
}

/** One word, perhaps decorated, and an opening bracket if there is one. */
const namePattern = /\s*[`"'*_]{0,3}([\w.-]{1,64}?)[`"'*_.,;]{0,3}[ \t]*(?=[({\r\n]|$)(\(?)[ \t]*/y;

/** Name and input of an action whose label ends at `at`; `end` is null where it cannot be told. */
function readAction(text: string, at: number): { name: string; input: ReactInput; end: number | null } {
  const named = matchAt(text, namePattern, at);
  const unreadable = { kind: "unreadable" } as const;
  if (!named) return { name: "", input: unreadable, end: null };
  const [whole, name = "", bracket] = named;
  const behind = at + whole.length;
  if (bracket || text[behind] === "{") {
    const object = readLooseObject(text, behind);
    if (object) {
      const close = matchAt(text, /\s*\)/y, object.end);
      return {
        name,
        input: { kind: "object", json: object.json },
        end: object.end + (close?.[0].length ?? 0),
      };
    }
    const isEmpty = bracket && text[behind] === ")";
    return isEmpty
      ? { name, input: { kind: "none" }, end: behind + 1 }
      : { name, input: unreadable, end: null };
  }
  const label = matchAt(text, new RegExp(`\\s*?${labelPattern}`, "iy"), behind);
  if (label?.[1]?.toLowerCase().replace("_", " ") !== "action input") {
    const isLast = label !== null || text.slice(behind).trim() === "";
    return { name, input: isLast ? { kind: "none" } : unreadable, end: isLast ? behind : null };
  }
  return { name, ...readInput(text, behind + label[0].length) };
}

function readInput(text: string, labelEnd: number): { input: ReactInput; end: number | null } {
  const unreadable = { input: { kind: "unreadable" } as const, end: null };
  const at = labelEnd + (matchAt(text, /\s*/y, labelEnd)?.[0].length ?? 0);
  if (at === text.length || (text.slice(labelEnd, at).includes("\n") && isLabel(text, at)))
    return { input: { kind: "none" }, end: labelEnd };
  const opened = matchAt(text, /()(`{3,}|~{3,})([^`\n]*)(?=\n|$)/y, at);
  if (opened) {
    const fence = readFence(text, opened);
    // As with a command: half of an input must not be used.
    if (!fence.isClosed || hasFenceAfter(text, fence)) return unreadable;
    return { input: fencedInput(fence.body), end: fence.end };
  }
  if (text[at] === "{") {
    const object = readLooseObject(text, at);
    return object ? { input: { kind: "object", json: object.json }, end: object.end } : unreadable;
  }
  return readLine(text, at);
}

function fencedInput(text: string): ReactInput {
  const body = text.trim();
  if (body === "") return { kind: "none" };
  if (!body.startsWith("{")) return { kind: "text", text };
  const object = readLooseObject(body, 0);
  return object?.end === body.length ? { kind: "object", json: object.json } : { kind: "unreadable" };
}

/** Bare text is one line: of several, nobody knows which belong to it. */
function readLine(text: string, at: number): { input: ReactInput; end: number | null } {
  const newline = text.indexOf("\n", at);
  const end = newline < 0 ? text.length : newline;
  const rest = text.slice(end).trim();
  const isAlone =
    rest === "" || "observation:".startsWith(rest.toLowerCase()) || isLabel(text, skipLines(text, end));
  if (!isAlone) return { input: { kind: "unreadable" }, end: null };
  return { input: bareInput(text.slice(at, end).trim()), end };
}

/** A text in quotes is what stands in them, and an object where it was encoded twice. */
function bareInput(line: string): ReactInput {
  const unquoted = /^`([^`]+)`$/.exec(line)?.[1] ?? parseText(line) ?? line;
  const object = unquoted.trimStart().startsWith("{") ? readLooseObject(unquoted.trim(), 0) : undefined;
  if (object?.end === unquoted.trim().length) return { kind: "object", json: object.json };
  return { kind: "text", text: unquoted };
}

function parseText(line: string): string | undefined {
  if (!line.startsWith('"')) return undefined;
  try {
    return String(JSON.parse(line));
  } catch {
    return undefined;
  }
}

function isLabel(text: string, at: number): boolean {
  return matchAt(text, new RegExp(labelPattern, "iy"), at) !== null;
}

function skipLines(text: string, at: number): number {
  return at + (matchAt(text, /(?:[ \t\r]*\n)*/y, at)?.[0].length ?? 0);
}

/** Where an Observation of the model's own begins, in a reply of which no action can be read; else the end. */
function endOfWords(text: string, from: number): number {
  const pattern = new RegExp(labelPattern, "gi");
  pattern.lastIndex = from;
  for (let found = pattern.exec(text); found; found = pattern.exec(text)) {
    if (found[1]?.toLowerCase() === "observation") return found.index;
  }
  return text.length;
}

function withoutLabel(thought: string): string {
  return thought.replace(new RegExp(`^\\s*${labelPattern}`, "i"), "").trim();
}

function matchAt(text: string, pattern: RegExp, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(text);
}
