import { clip } from "../report/text.ts";
import { forTerminal } from "./output.ts";

const refreshMs = 200;
const clearLine = "\r\u001b[2K";

/** Lines above, and below them one that is always up to date, where the stream is a terminal. */
export interface LiveLine {
  write(line: string): void;
  close(): void;
}

/** `current` gives the line; undefined shows none. Elsewhere than at a terminal there are only the lines. */
export function openLiveLine(options: {
  stream: NodeJS.WriteStream;
  current(): string | undefined;
  decorate(line: string): string;
}): LiveLine {
  const { stream, current, decorate } = options;
  const isLive = stream.isTTY && process.env.TERM !== "dumb";
  if (!isLive) return { write: (line) => void stream.write(`${forTerminal(line)}\n`), close: () => {} };
  let isShown = false;

  function draw(above = ""): void {
    const line = current();
    // A line as wide as the terminal would wrap, and could not be taken back.
    const shown = line === undefined ? "" : forTerminal(decorate(clip(line, (stream.columns || 80) - 1)));
    if (isShown || above !== "" || shown !== "") stream.write(`${isShown ? clearLine : ""}${above}${shown}`);
    isShown = shown !== "";
  }

  const timer = setInterval(draw, refreshMs);
  timer.unref();
  return {
    write: (line) => draw(`${forTerminal(line)}\n`),
    close() {
      clearInterval(timer);
      if (isShown) stream.write(clearLine);
      isShown = false;
    },
  };
}
