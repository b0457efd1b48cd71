import { stripVTControlCharacters } from "node:util";

// Text as a terminal shows it. Whatever a model or a command wrote is cleaned first: it must not move the cursor.

/** Text without escape sequences and control characters; line feeds and tabs stay. */
export function printable(text: string): string {
  return stripVTControlCharacters(text)
    .replace(/\r\n/g, "\n")
    .replace(/\p{Cc}/gu, (character) => (character === "\n" || character === "\t" ? character : ""));
}

/** Text on one line, blanks collapsed. */
export function flat(text: unknown): string {
  return printable(String(text ?? ""))
    .replace(/\s+/g, " ")
    .trim();
}

/** How many columns a terminal uses for it, about: two for each Chinese character, Japanese character or emoji. */
export function displayWidth(text: string): number {
  let width = 0;
  for (const character of stripVTControlCharacters(text)) width += characterWidth(character);
  return width;
}

/** Plain text cut to this many columns, with … where something was left out. */
export function clip(text: string, columns: number): string {
  if (displayWidth(text) <= columns) return text;
  let width = 1;
  let kept = "";
  for (const character of text) {
    width += characterWidth(character);
    if (width > columns) break;
    kept += character;
  }
  return `${kept}…`;
}

/** A duration as people say it: 950 ms, 12.3 s, 4 min 05 s, 2 h 10 min. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${String(Math.floor((ms % 60_000) / 1000)).padStart(2, "0")} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

/** Epoch milliseconds as documents write them. */
export function isoTime(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString();
}

/** An ISO instant as this machine's clock shows it: 14:05:09, with the day where it is not today's. */
export function localTime(instant: unknown): string {
  const at = new Date(String(instant));
  const isToday = at.toDateString() === new Date().toDateString();
  return isToday ? at.toTimeString().slice(0, 8) : at.toISOString();
}

/** What a fork copied counts for no limit, but its steps are numbered on from there: ` (+2 copied)`, or nothing. */
export function copied(steps: number): string {
  return steps === 0 ? "" : ` (+${steps} copied)`;
}

/** `1 file`, `2 files`. */
export function counted(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

/** East Asian Wide and emoji. */
const wide =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;
const zero = /[\p{Mn}\p{Me}\p{Cf}]/u;

function characterWidth(character: string): number {
  if (zero.test(character)) return 0;
  return wide.test(character) ? 2 : 1;
}
