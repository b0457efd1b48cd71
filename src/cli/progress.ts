import { messageOf } from "../errors.ts";
import type { Logger, LogLevel } from "../log.ts";
import { createActivities } from "../report/activity.ts";
import { createProgress } from "../report/progress.ts";
import { openLiveLine } from "./live-line.ts";
import { note, paint, type Style } from "./output.ts";

/** What `run` and `worker` show on stderr: what happens, a line each, and at a terminal what goes on at the moment. */
export interface Progress {
  logger: Logger;
  /** A line of the command itself. */
  note(line: string): void;
  close(): void;
}

export function openProgress(options: { level: LogLevel; manyRuns: boolean }): Progress {
  if (options.level === "silent") {
    const logger = createProgress({ ...options, palette, write: () => {} });
    return { logger, note, close: () => {} };
  }
  const activities = createActivities();
  const live = openLiveLine({
    stream: process.stderr,
    current: () => activities.describe(performance.now()),
    decorate: (line) => style("yellow")(line),
  });
  const progress = createProgress({ ...options, palette, write: live.write });
  const logger: Logger = {
    info(event, facts = {}) {
      activities.observe(event, facts, performance.now());
      progress.info(event, facts);
    },
    debug: progress.debug,
    live: (event, facts) => activities.observe(event, facts, performance.now()),
  };
  return { logger, note: live.write, close: live.close };
}

const style = (name: Style) => (text: string) => paint(name, text, process.stderr);
const palette = {
  dim: style("dim"),
  strong: style("bold"),
  command: style("cyan"),
  good: style("green"),
  bad: style("red"),
};

/**
 * Stops at the first SIGINT or SIGTERM, and leaves at once at the second. Says which signal came first; as exit code both
 * are an interruption.
 */
export function onStopSignals(
  stop: () => void,
  note: (line: string) => void,
): { received(): "SIGINT" | "SIGTERM" | undefined; remove(): void } {
  let received: "SIGINT" | "SIGTERM" | undefined;
  const handle = (signal: "SIGINT" | "SIGTERM") => {
    if (received !== undefined) process.exit(130);
    received = signal;
    note("stopping: current steps get a few seconds, every run stays resumable (again to leave at once)");
    stop();
  };
  // Thrown by a timer or a promise that a tool left behind: whose it was cannot be known.
  let isFaulty = false;
  const onFault = (error: unknown) => {
    if (isFaulty) process.exit(1);
    isFaulty = true;
    process.exitCode = 1;
    note(
      `an error outside of every call, which a tool may have left behind: ${messageOf(error)}; stopping in order`,
    );
    stop();
  };
  process.on("uncaughtException", onFault);
  const onInterrupt = () => handle("SIGINT");
  const onTerminate = () => handle("SIGTERM");
  process.on("SIGINT", onInterrupt);
  process.on("SIGTERM", onTerminate);
  return {
    received: () => received,
    remove() {
      process.off("SIGINT", onInterrupt);
      process.off("SIGTERM", onTerminate);
      process.off("uncaughtException", onFault);
    },
  };
}
