import { randomUUID } from "node:crypto";
import { styleText } from "node:util";
import { displayWidth, printable } from "../report/text.ts";

// All that a command writes goes through here. Lines for people are cleaned here and nowhere else has to think of it: a
// key, a path or a message may hold escape sequences, which must not reach a terminal. Our own colours do.

/** Stands for the escape character of our own colours until a line is written. Text from outside cannot hold it. */
const ownEscape = `\u001b${randomUUID()}`;

/** One JSON document on stdout. */
export function printJson(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

/** A line for people that is the answer of a look command: stdout. */
export function print(line = ""): void {
  process.stdout.write(`${forTerminal(line)}\n`);
}

/** A line for people beside the answer: stderr. */
export function note(line: string): void {
  process.stderr.write(`${forTerminal(line)}\n`);
}

/** What a program may read, byte for byte: an answer, a patch. A terminal gets it as people's text. */
export function printData(data: string | Uint8Array): void {
  if (!process.stdout.isTTY) process.stdout.write(data);
  else
    process.stdout.write(forTerminal(typeof data === "string" ? data : Buffer.from(data).toString("utf8")));
}

/** Takes back the last lines of stdout, where it is a terminal. */
export function eraseLines(count: number): void {
  process.stdout.write(`\u001b[${count}A\u001b[J`);
}

/** Text as a terminal may get it: no control characters but line feeds, tabs and the colours of `paint`. */
export function forTerminal(text: string): string {
  return text.split(ownEscape).map(printable).join("\u001b");
}

/** From now on what a configuration or a tool prints goes to stderr: it is no answer of ours. */
export function keepStdout(): void {
  console.log = console.info = console.debug = console.error;
}

/** Rows under their headings, columns aligned as a terminal shows them. */
export function table(headings: string[], rows: string[][]): string[] {
  const widths = headings.map((heading, column) =>
    rows.reduce((widest, row) => Math.max(widest, displayWidth(row[column] ?? "")), heading.length),
  );
  const line = (cells: string[]) =>
    cells
      .map((cell, column) => cell + " ".repeat(Math.max(0, (widths[column] ?? 0) - displayWidth(cell))))
      .join("  ")
      .trimEnd();
  return [line(headings), ...rows.map(line)];
}

export type Style = Parameters<typeof styleText>[0];

/** Colours text where the stream is a terminal and NO_COLOR is not set. To be written by `print`, `note` or `forTerminal`. */
export function paint(style: Style, text: string, stream: NodeJS.WriteStream = process.stdout): string {
  const isWanted = stream.isTTY && !process.env.NO_COLOR;
  if (!isWanted) return text;
  // Only what goes around the text is ours: what the text itself holds is still to be cleaned.
  const around = styleText(style, "\n", { validateStream: false }).replaceAll("\u001b", ownEscape);
  return around.split("\n").join(text);
}

/** Ends a command that only watches with the exit code of an interruption. */
export function exitOnInterrupt(): void {
  process.once("SIGINT", () => process.exit(130));
}
