import type { Logger, LogLevel } from "../log.ts";

/** How a progress line is written: plain, or coloured for a terminal. */
interface Palette {
  dim(text: string): string;
  strong(text: string): string;
  command(text: string): string;
  good(text: string): string;
  bad(text: string): string;
}

export interface ProgressOptions {
  level: LogLevel;
  write(line: string): void;
  palette: Palette;
  /** Names the run in every line: for workers, which have several. */
  namesRuns: boolean;
}

type Facts = Record<string, unknown>;

/** A logger whose lines a person can follow: step, command, how long, tokens; at `debug` also thoughts and outputs whole. */
export function createProgress(options: ProgressOptions): Logger {
  const log =
    (level: LogLevel) =>
    (event: string, facts: Facts = {}) => {
      if (options.level === "silent" || (level === "debug" && options.level !== "debug")) return;
      const text = describeEvent(event, facts, options.palette);
      if (text === undefined) return;
      const time = options.palette.dim(new Date().toISOString().slice(11, 19));
      const run =
        options.namesRuns && typeof facts.run === "string" ? ` ${options.palette.dim(facts.run)}` : "";
      options.write(`${time}${run} ${text}`);
    };
  return { info: log("info"), debug: log("debug") };
}

/** Undefined for events that are no news to a person. */
function describeEvent(event: string, facts: Facts, palette: Palette): string | undefined {
  const { dim, strong, command, good, bad } = palette;
  switch (event) {
    case "step.started":
      return undefined;
    case "step.answered": {
      const tokens =
        facts.promptTokens === null ? "" : dim(` · ${facts.promptTokens} → ${facts.completionTokens} tokens`);
      const said = facts.problem ?? facts.thought;
      return `${strong(`step ${facts.step}`)} ${dim(`${seconds(facts.ms)}`)}${tokens}${said ? ` ${flat(said)}` : ""}`;
    }
    case "tool.started":
      return `  ${command(`→ ${facts.tool} ${readableArguments(facts.arguments)}`)}`;
    case "tool.finished": {
      const mark = facts.isError ? bad("✗") : good("✓");
      const note = facts.note ? ` ${facts.note}` : "";
      return `  ${mark} ${dim(`${facts.tool} ${seconds(facts.ms)}`)}${note} ${dim(flat(facts.output))}`;
    }
    case "run.claimed":
      return Number(facts.step) > 0
        ? `${strong("claimed")}, goes on after step ${facts.step}`
        : strong("claimed");
    case "run.started":
      return dim(`works in ${facts.workspace}`);
    case "run.finished": {
      const files = facts.changedFiles === null ? "" : dim(` · ${facts.changedFiles} files changed`);
      const status = facts.status === "succeeded" ? good(String(facts.status)) : bad(String(facts.status));
      return `${status} (${facts.reason})${files}${facts.error ? `: ${flat(facts.error)}` : ""}`;
    }
    case "step.thought":
      return [facts.reasoning, facts.thought, ...(facts.calls as string[])].filter(Boolean).join("\n");
    case "tool.observed":
      return String(facts.observation);
    default: {
      const { run: _run, ...others } = facts;
      const pairs = Object.entries(others).map(
        ([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`,
      );
      return `${event} ${dim(pairs.join(" "))}`.trimEnd();
    }
  }
}

function seconds(ms: unknown): string {
  return `${(Number(ms) / 1000).toFixed(1)} s`;
}

function flat(text: unknown): string {
  return String(text ?? "")
    .replace(/\s+/g, " ")
    .trim();
}

/** The command of a shell call, the path of a file call: what a person wants to see of the arguments. */
function readableArguments(text: unknown): string {
  try {
    const input = JSON.parse(String(text)) as Record<string, unknown>;
    return flat(input.command ?? input.path ?? JSON.stringify(input));
  } catch {
    return flat(text);
  }
}
