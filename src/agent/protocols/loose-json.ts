/** A JSON object in a text: as JSON, and the place behind it. */
export interface LooseObject {
  json: string;
  end: number;
}

/** Deeper than any tool's input. */
const maxDepth = 64;

/**
 * The object that begins at `start`, written in JSON or nearly so: single quotes, trailing commas, names without quotes,
 * comments, line breaks in texts, Python's words. Undefined where it does not end or is something else. What is JSON is kept
 * to the letter, and no text in it is looked into.
 */
export function readLooseObject(text: string, start: number): LooseObject | undefined {
  const reader: Reader = { text, at: start };
  try {
    const value = readValue(reader, 0);
    if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
    const written = text.slice(start, reader.at);
    return { json: isJson(written) ? written : JSON.stringify(value), end: reader.at };
  } catch (error) {
    if (error instanceof NotReadable) return undefined;
    throw error;
  }
}

interface Reader {
  text: string;
  at: number;
}

class NotReadable extends Error {}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function readValue(reader: Reader, depth: number): unknown {
  if (depth > maxDepth) throw new NotReadable();
  skipBlanks(reader);
  const character = reader.text[reader.at];
  if (character === "{") return readObject(reader, depth);
  if (character === "[") return readMembers(reader, "]", () => readValue(reader, depth + 1));
  return character === '"' || character === "'" ? readText(reader) : readWord(reader);
}

function readObject(reader: Reader, depth: number): unknown {
  const members = readMembers(reader, "}", () => {
    const quote = reader.text[reader.at];
    const name = quote === '"' || quote === "'" ? readText(reader) : take(reader, /[\w$-]+/y);
    skipBlanks(reader);
    take(reader, /:/y);
    return [name, readValue(reader, depth + 1)] as const;
  });
  return Object.fromEntries(members);
}

/** What stands between brackets, commas between and perhaps behind. */
function readMembers<Member>(reader: Reader, closing: string, readMember: () => Member): Member[] {
  const members: Member[] = [];
  reader.at += 1;
  // Ends: each round reads on, and the end of the text is not readable.
  for (;;) {
    skipBlanks(reader);
    if (reader.text[reader.at] === closing) break;
    members.push(readMember());
    skipBlanks(reader);
    if (reader.text[reader.at] !== closing) take(reader, /,/y);
  }
  reader.at += 1;
  return members;
}

const escapes: Record<string, string> = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f" };

/** A backslash that begins no escape of JSON stays: shell and regular expressions are full of them. */
function readText(reader: Reader): string {
  const quote = reader.text[reader.at];
  const isTriple = reader.text.startsWith(`${quote}${quote}${quote}`, reader.at);
  const closing = isTriple ? `${quote}${quote}${quote}` : `${quote}`;
  reader.at += closing.length;
  let value = "";
  while (!reader.text.startsWith(closing, reader.at)) {
    const part = take(reader, /\\u[\da-f]{4}|\\[\s\S]|[^\\"']+|["']/iy);
    value += part.startsWith("\\") ? readEscape(part) : part;
  }
  reader.at += closing.length;
  return value;
}

function readEscape(part: string): string {
  const [, letter = ""] = part;
  if (letter === "u" && part.length > 2) return String.fromCharCode(Number.parseInt(part.slice(2), 16));
  return escapes[letter] ?? (/["'\\/]/.test(letter) ? letter : part);
}

const words: Record<string, unknown> = {
  true: true,
  false: false,
  null: null,
  True: true,
  False: false,
  None: null,
};

function readWord(reader: Reader): unknown {
  const word = take(reader, /-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|[a-z]+/iy);
  if (Object.hasOwn(words, word)) return words[word];
  if (/^[a-z]/i.test(word)) throw new NotReadable();
  return Number(word);
}

function skipBlanks(reader: Reader): void {
  take(reader, /(?:\s|\/\/[^\n]*|\/\*[\s\S]*?\*\/)*/y);
}

function take(reader: Reader, pattern: RegExp): string {
  pattern.lastIndex = reader.at;
  const found = pattern.exec(reader.text);
  if (!found) throw new NotReadable();
  reader.at = pattern.lastIndex;
  return found[0];
}
