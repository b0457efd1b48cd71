import { stripVTControlCharacters } from "node:util";

/** How much of a file is looked at to tell text from anything else. */
export const sampleBytes = 8_192;
/** With more than this share of bytes that no text has, it is not text. */
const maxOddShare = 0.2;

/** Text that can be stored and sent anywhere: no NUL, no lone surrogate. */
export function storable(text: string): string {
  return text.replaceAll("\0", "").replace(/\p{Surrogate}/gu, "\ufffd");
}

/** What a terminal would show in the end: no escape sequences, progress lines collapsed to their last state. */
export function cleanOutput(text: string): string {
  return stripVTControlCharacters(text)
    .split("\n")
    .map(lastState)
    .join("\n")
    .replaceAll("\0", "\u2400")
    .replace(/\p{Cc}/gu, (character) => (character === "\n" || character === "\t" ? character : ""))
    .replace(/\p{Surrogate}/gu, "\ufffd");
}

/** Whether the first bytes of something are no text (in an encoding that is shown). */
export function isBinary(sample: Buffer): boolean {
  if (sample.length === 0) return false;
  // Streaming, so that a character that the sample cuts in two does not count.
  const text = new TextDecoder().decode(sample, { stream: true });
  let odd = 0;
  for (const character of text) if (isOdd(character)) odd += 1;
  return odd / text.length > maxOddShare;
}

function lastState(line: string): string {
  if (!line.includes("\r")) return line;
  return line.split("\r").findLast((state) => state.trim() !== "") ?? "";
}

function isOdd(character: string): boolean {
  const isUsual = "\t\n\r\f\b\u001b".includes(character);
  return character === "\ufffd" || (/\p{Cc}/u.test(character) && !isUsual);
}
