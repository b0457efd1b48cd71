import { styleText } from "node:util";

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

/** Rows under their headings, columns aligned; widths are of characters as a terminal shows them, about. */
export function table(headings: string[], rows: string[][]): string[] {
  const widths = headings.map((heading, column) =>
    Math.max(heading.length, ...rows.map((row) => (row[column] ?? "").length)),
  );
  const line = (cells: string[]) =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd();
  return [line(headings), ...rows.map(line)];
}

type Style = Parameters<typeof styleText>[0];

/** Colours text where the stream is a terminal and NO_COLOR is not set. */
export function paint(style: Style, text: string, stream: NodeJS.WriteStream = process.stdout): string {
  const isWanted = stream.isTTY && !process.env.NO_COLOR;
  return isWanted ? styleText(style, text, { validateStream: false }) : text;
}

/** Text on one line, at most `length` characters. */
export function oneLine(text: string, length: number): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length <= length ? line : `${line.slice(0, length - 1).toWellFormed()}…`;
}

/** A duration as people say it: 950 ms, 12.3 s, 4 min 05 s, 2 h 10 min. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${String(Math.floor((ms % 60_000) / 1000)).padStart(2, "0")} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}
