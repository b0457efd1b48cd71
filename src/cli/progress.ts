import type { Logger, LogLevel } from "../log.ts";
import { createProgress } from "../report/progress.ts";
import { paint } from "./output.ts";

/** Live progress on stderr, coloured at a terminal. */
export function stderrProgress(level: LogLevel, namesRuns: boolean): Logger {
  const style = (name: Parameters<typeof paint>[0]) => (text: string) => paint(name, text, process.stderr);
  const palette = {
    dim: style("dim"),
    strong: style("bold"),
    command: style("cyan"),
    good: style("green"),
    bad: style("red"),
  };
  return createProgress({ level, namesRuns, palette, write: (line) => process.stderr.write(`${line}\n`) });
}

/** Stops at the first SIGINT or SIGTERM, and leaves at once at the second. Gives the signal's exit code once there was one. */
export function onStopSignals(stop: () => void): { exitCode(): number | undefined; remove(): void } {
  let code: number | undefined;
  const handle = (signal: NodeJS.Signals) => {
    const signalCode = signal === "SIGINT" ? 130 : 143;
    if (code !== undefined) process.exit(signalCode);
    code = signalCode;
    process.stderr.write(
      "stopping: current steps get a few seconds, every run stays resumable (again to leave at once)\n",
    );
    stop();
  };
  process.on("SIGINT", handle);
  process.on("SIGTERM", handle);
  return {
    exitCode: () => code,
    remove() {
      process.off("SIGINT", handle);
      process.off("SIGTERM", handle);
    },
  };
}
