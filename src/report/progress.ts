import { byteSize } from "../disk.ts";
import type { Logger, LogLevel } from "../log.ts";
import { counted, duration, flat, localTime, printable } from "./text.ts";

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
  /** For a worker: every line names its run and is one line only. Otherwise there is one run, and who shows it frames it. */
  manyRuns: boolean;
}

type Facts = Record<string, unknown>;
type Form = Pick<ProgressOptions, "palette" | "manyRuns" | "level">;

/** Of the beginning of an output, where it may take lines of its own. */
const maxOutputLines = 6;

/** A logger whose lines a person can follow: step, command, how long, tokens; at `debug` also thoughts and outputs whole. */
export function createProgress(options: ProgressOptions): Logger {
  const { level, palette, manyRuns, write } = options;
  const log =
    (at: LogLevel) =>
    (event: string, facts: Facts = {}) => {
      if (level === "silent" || (at === "debug" && level !== "debug")) return;
      const text = describeEvent(event, facts, options);
      if (text === undefined) return;
      const time = palette.dim(new Date().toTimeString().slice(0, 8));
      const run = manyRuns && typeof facts.run === "string" ? ` ${palette.dim(facts.run)}` : "";
      write(`${time}${run} ${text}`);
    };
  return { info: log("info"), debug: log("debug") };
}

/** Undefined for events that are no news to a person. */
function describeEvent(event: string, facts: Facts, form: Form): string | undefined {
  const { dim, strong, command } = form.palette;
  switch (event) {
    case "step.started":
      return undefined;
    case "step.answered":
      return describeReply(facts, form);
    case "tool.started":
      return `  ${command(`→ ${facts.tool} ${readableArguments(facts.arguments)}`)}`;
    case "tool.finished":
      return describeResult(facts, form);
    case "step.thought":
      return describeThought(facts, form);
    case "tool.observed":
      return `  ${dim("observation")}\n${indent(facts.observation)}`;
    case "run.claimed":
      if (Number(facts.step) > 0) return `${strong("goes on")} after step ${facts.step}`;
      return form.manyRuns ? strong("begins") : undefined;
    case "run.started":
      return `${dim("works in")} ${facts.workspace}${describeNotes(facts, form)}`;
    case "run.finished":
      return describeEnd(facts, form);
    case "run.waiting":
      return form.manyRuns ? describeWait(facts, form) : undefined;
    case "run.released":
      return form.manyRuns ? "left at its last checkpoint" : undefined;
    case "run.lost":
      return "another worker has it now: what was done here since its last checkpoint does not count";
    default:
      return describeUpkeep(event, facts, form);
  }
}

function describeReply(facts: Facts, { palette: { dim, strong }, level }: Form): string {
  const { promptTokens, completionTokens } = facts;
  const tokens = promptTokens === null ? "" : ` · ${promptTokens} → ${completionTokens} tokens`;
  // At debug the whole thought follows.
  const said = level === "debug" ? flat(facts.problem ?? "") : describeSaid(facts, dim);
  return `${strong(`step ${facts.step}`)} ${dim(`${duration(Number(facts.ms))}${tokens}`)} ${said}`.trimEnd();
}

/** What was said; where nothing was, how it was reasoned. */
function describeSaid({ problem, thought, reasoning }: Facts, dim: Palette["dim"]): string {
  const said = problem ?? thought;
  return said ? flat(said) : reasoning ? dim(flat(reasoning)) : "";
}

function describeResult(facts: Facts, { palette: { dim, good, bad }, manyRuns, level }: Form): string {
  const mark = facts.isError ? bad("✗") : good("✓");
  const head = `  ${mark} ${dim([facts.tool, duration(Number(facts.ms)), facts.note].filter(Boolean).join(" · "))}`;
  if (level === "debug") return head;
  if (manyRuns) return `${head} ${dim(flat(facts.output))}`;
  const lines = printable(String(facts.output ?? ""))
    .trimEnd()
    .split("\n");
  const more = lines.length > maxOutputLines ? ["…"] : [];
  return [head, ...[...lines.slice(0, maxOutputLines), ...more].map((line) => dim(`      ${line}`))].join(
    "\n",
  );
}

function describeThought({ reasoning, thought, calls }: Facts, { palette: { dim, command } }: Form): string {
  const asked = Array.isArray(calls) ? calls : [];
  return [
    ...(reasoning ? [`  ${dim("reasoning")}`, dim(indent(reasoning))] : []),
    ...(thought ? [`  ${dim("thought")}`, indent(thought)] : []),
    ...asked.flatMap((call) => [`  ${dim("action")}`, command(indent(call))]),
  ]
    .join("\n")
    .replace(/^ {2}/, "");
}

function describeEnd(facts: Facts, form: Form): string | undefined {
  const { dim, good, bad } = form.palette;
  const notes = describeNotes(facts, form);
  // Who shows one run says itself how it ended.
  if (!form.manyRuns) return notes.trimStart() || undefined;
  const files =
    facts.changedFiles === null ? "" : dim(` · ${counted(Number(facts.changedFiles), "file")} changed`);
  const status = facts.status === "succeeded" ? good("succeeded") : bad(String(facts.status));
  const error = facts.error ? `: ${flat(facts.error)}` : "";
  return `${status} (${facts.reason})${files}${error}${notes}`;
}

function describeNotes({ notes }: Facts, { palette, manyRuns }: Form): string {
  const texts = Array.isArray(notes) ? notes.map((note) => `${palette.dim("note:")} ${flat(note)}`) : [];
  return texts.map((text) => (manyRuns ? `; ${text}` : `\n  ${text}`)).join("");
}

function describeWait({ kind, note, wakeAt }: Facts, { palette: { strong } }: Form): string {
  const until = typeof wakeAt === "number" ? ` until ${localTime(new Date(wakeAt).toISOString())}` : "";
  return `${strong(`waits (${kind})${until}`)} ${flat(note)}`;
}

const stopReasons: Record<string, string> = {
  asked: "stopping, as pawl stop asked",
  newer_schema: "stopping, because a newer pawl has migrated the database: start the new one",
};

/** What a worker does beside its runs. */
function describeUpkeep(event: string, facts: Facts, { palette, manyRuns }: Form): string | undefined {
  switch (event) {
    case "worker.started":
      return manyRuns
        ? `${palette.strong("worker")} ${facts.worker} takes up to ${counted(Number(facts.concurrency), "run")} at once`
        : undefined;
    case "worker.stopped":
      return manyRuns ? palette.strong("worker stopped") : undefined;
    case "worker.stopping":
      return `${stopReasons[String(facts.why)]}: current steps get a few seconds, every run stays resumable`;
    case "disk.low":
      return `${byteSize(Number(facts.freeBytes))} free at ${facts.folder}, less than ${byteSize(Number(facts.minFreeBytes))}: nothing new is begun until there is room (minFreeBytes)`;
    case "disk.room":
      return "there is room on the disk again";
    case "workspace.freed":
      return `its workspace was deleted to make room, its change is kept: ${facts.path}`;
    case "worker.removed": {
      return `worker ${facts.worker} ${describeLoss(facts.why)}: ${counted(Number(facts.runs), "run")} of it can go on`;
    }
    case "worker.lease_lost":
      return "this worker's lease has run out (the machine slept, or this process was stopped or stuck): beginning anew";
    case "disk.full":
      return `the disk is full (${flat(facts.database ?? facts.error)}): nothing is lost, work goes on once there is room`;
    case "queue.unavailable":
      return flat(facts.error);
    case "queue.lost":
      return "the queue was flushed, or is another one: it is told of every queued run again";
    case "lock.waiting":
      return `waits for ${facts.file}, which another run holds (a first clone may take minutes)`;
    case "lock.silent":
      return `goes on without ${facts.file}: the process that holds it is stopped or stuck`;
    case "model.retried":
      return `the model is asked again in ${duration(Number(facts.delayMs))} (retry ${facts.attempt} of ${Number(facts.attempts) - 1}): ${flat(facts.error)}`;
    case "model.waiting":
      if (facts.isNews !== true) return undefined;
      return `nothing is asked until ${localTime(facts.until)}: ${flat(facts.note ?? "requests are held apart")}`;
    case "model.changed":
      return `model ${facts.model} is asked in place of ${facts.before}`;
    case "budget.waiting":
      return `the budget of ${facts.scope === "batch" ? `batch ${flat(facts.batch)}` : "the day"} is taken by others' requests: waits for what they give back`;
    case "model.base_url":
      return `asks ${facts.baseUrl}: the base URL lacked its path`;
    case "model.loading":
      return `${facts.provider} loads ${facts.model}: that may take minutes`;
    case "model.window":
      return describeWindow(facts);
    case "protocol.changed":
      return `works in the protocol ${facts.to}, as the model takes no tools: ${flat(facts.why)}`;
    case "window.compacted":
      return `the window was full: older messages now stand as a ${facts.kind}`;
    default: {
      const { run: _run, ...others } = facts;
      const pairs = Object.entries(others).map(
        ([name, value]) => `${name}=${typeof value === "string" ? flat(value) : JSON.stringify(value)}`,
      );
      return `${event} ${palette.dim(pairs.join(" "))}`.trimEnd();
    }
  }
}

/** With the remedy where the model could have more. */
function describeWindow({ model, provider, contextTokens, maxContextTokens, remedy }: Facts): string {
  const isCut = Number(maxContextTokens) > Number(contextTokens);
  const more = isCut ? `, it could have ${maxContextTokens} (${remedy})` : "";
  return `${model} has a window of ${contextTokens} tokens at ${provider}${more}`;
}

function describeLoss(why: unknown): string {
  if (why === "dead") return "is dead";
  return why === "rebooted" ? "ended with its machine" : "let its lease run out";
}

function indent(text: unknown): string {
  return printable(String(text)).trimEnd().replace(/^/gm, "    ");
}

/** The command of a shell call, the path of a file call: what a person wants to see of the arguments. */
export function readableArguments(text: unknown): string {
  try {
    const input: unknown = JSON.parse(String(text));
    if (typeof input !== "object" || input === null) return flat(text);
    const { command, path } = input as Record<string, unknown>;
    return flat(command ?? path ?? JSON.stringify(input));
  } catch {
    return flat(text);
  }
}
