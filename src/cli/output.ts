import { styleText } from "node:util";
import { displayWidth } from "../report/text.ts";

/** One JSON document on stdout. */
export function printJson(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

/** A line for people that is the answer of a look command: stdout. */
export function print(line = ""): void {
  process.stdout.write(`${line}\n`);
}

/** A line for people beside the answer: stderr. */
export function note(line: string): void {
  process.stderr.write(`${line}\n`);
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

/** Colours text where the stream is a terminal and NO_COLOR is not set. */
export function paint(style: Style, text: string, stream: NodeJS.WriteStream = process.stdout): string {
  const isWanted = stream.isTTY && !process.env.NO_COLOR;
  return isWanted ? styleText(style, text, { validateStream: false }) : text;
}

/** Ends a command that only watches with the exit code of an interruption. */
export function exitOnInterrupt(): void {
  process.once("SIGINT", () => process.exit(130));
}
