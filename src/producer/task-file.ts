import { createHash } from "node:crypto";
import path from "node:path";
import { describeValue } from "../config/validation.ts";
import { ConfigError, messageOf } from "../errors.ts";
import { checkTaskFields, resolvePaths, type TaskFields } from "./fields.ts";
import { createTaskFiles } from "./named-files.ts";
import { createTask, type UnknownTools } from "./new-task.ts";
import type { NewTask } from "./task.ts";

export type TaskFileFormat = "jsonl";

const maxShownProblems = 20;
const maxReasonChars = 200;

export interface TaskFileOptions {
  /** The file's content; bytes must be UTF-8. */
  content: string | Uint8Array;
  format: TaskFileFormat;
  /** How messages call it: the path as given, or `stdin`. */
  name: string;
  /** Relative paths in it start here: the file's folder, or the current one for stdin. */
  baseDir: string;
  batch: string | null;
  /** For fields that a line leaves out, the key aside; paths are absolute. */
  defaults?: TaskFields;
  unknownTools?: UnknownTools;
}

/** A line of the file that holds something, with its physical number, from 1. */
interface Line {
  number: number;
  text: string;
}

interface LineProblem {
  line: number;
  reason: string;
}

/** A task of the file before its key is settled. */
interface Row {
  line: number;
  task: NewTask;
  hasOwnKey: boolean;
}

/**
 * Reads the tasks of a file, one JSON object a line. All or nothing: if any line is bad, a ConfigError names every bad
 * line (the first 20, and how many more) with its reason. A line without key gets a hash of what it says as key, so that
 * reading the file again gives the same keys, whatever other lines there are.
 */
export function parseTaskFile(options: TaskFileOptions): NewTask[] {
  const lines = splitLines(decode(options.content, options.name));
  if (lines[0]?.text.trim().startsWith("[")) {
    throw new ConfigError(
      `${options.name}: expected one JSON object a line, got a list; \`jq -c '.[]'\` turns it into lines`,
    );
  }
  const problems: LineProblem[] = [];
  const rows: Row[] = [];
  const files = createTaskFiles();
  for (const { number, text } of lines) {
    const parsed = parseLine(text, { ...options, files });
    if ("problems" in parsed) problems.push(...parsed.problems.map((reason) => ({ line: number, reason })));
    else rows.push({ line: number, ...parsed });
  }
  problems.push(...findRepeats(rows));
  if (problems.length > 0) throw new ConfigError(summarize(options.name, problems));
  return rows.map(({ task }) => task);
}

/** The format of a file by its name. Throws ConfigError for those that are not built yet. */
export function taskFileFormat(file: string): TaskFileFormat {
  const extension = path.extname(file).toLowerCase();
  if ([".yaml", ".yml", ".csv", ".tsv"].includes(extension)) {
    throw new ConfigError(`${file}: ${extension.slice(1)} task files are not built yet; use JSONL`);
  }
  return "jsonl";
}

function decode(content: string | Uint8Array, name: string): string {
  if (typeof content === "string") return content.replace(/^\uFEFF/, "");
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(content);
  } catch (error) {
    throw new ConfigError(`${name}: expected UTF-8 text, got other bytes; save it as UTF-8`, {
      cause: error,
    });
  }
}

/** Only a line feed ends a line: U+2028 may stand in a prompt. JSON takes the carriage return for a blank. */
function splitLines(text: string): Line[] {
  return text
    .split("\n")
    .map((line, index) => ({ number: index + 1, text: line }))
    .filter((line) => line.text.trim() !== "");
}

function parseLine(
  text: string,
  options: TaskFileOptions & { files: ReturnType<typeof createTaskFiles> },
): Omit<Row, "line"> | { problems: string[] } {
  const value = parseJson(text);
  if ("problem" in value) return { problems: [value.problem] };
  const checked = checkTaskFields(value.object);
  if ("problems" in checked) {
    return { problems: checked.problems.map(({ name, message }) => `${name}: ${message}`) };
  }
  const { defaults = {}, baseDir, batch, files, unknownTools } = options;
  const own = checked.data;
  const fields = { ...defaultsFor(own, defaults), ...own };
  const created = createTask({ fields, baseDir, batch, files, unknownTools });
  if ("problems" in created) return created;
  const hasOwnKey = own.key !== undefined;
  const task = hasOwnKey ? created.task : { ...created.task, key: hashOf(own, { fields, baseDir }) };
  return { task, hasOwnKey };
}

function parseJson(text: string): { object: object } | { problem: string } {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return { object: value };
    return { problem: `expected a JSON object, got ${describeValue(value)}` };
  } catch (error) {
    return {
      problem: `expected a JSON object, got broken JSON: ${messageOf(error).slice(0, maxReasonChars)}`,
    };
  }
}

/** A line that says where it works takes nothing of that from the defaults. */
function defaultsFor(own: TaskFields, defaults: TaskFields): TaskFields {
  if (own.repo === undefined && own.dir === undefined) return defaults;
  const { repo: _repo, dir: _dir, ref: _ref, ...rest } = defaults;
  return rest;
}

/**
 * What the line says, and what the task works on: not limits that come from elsewhere, which may change from day to day.
 * Paths count as absolute, so that equal lines in different folders are different tasks.
 */
function hashOf(own: TaskFields, context: { fields: TaskFields; baseDir: string }): string {
  const { prompt, repo, dir, ref } = context.fields;
  const said = resolvePaths({ prompt, repo, dir, ref, ...own }, context.baseDir);
  const entries = Object.entries(said).filter(([, value]) => value !== undefined);
  const content = JSON.stringify(entries.sort(([one], [other]) => (one < other ? -1 : 1)));
  return `task-${createHash("sha256").update(content).digest("hex").slice(0, 16)}`;
}

function findRepeats(rows: Row[]): LineProblem[] {
  const firstByKey = new Map<string, Row>();
  const problems: LineProblem[] = [];
  for (const row of rows) {
    const key = row.task.key ?? "";
    const first = firstByKey.get(key);
    if (first === undefined) firstByKey.set(key, row);
    else problems.push({ line: row.line, reason: describeRepeat(first, row) });
  }
  return problems;
}

function describeRepeat(first: Row, row: Row): string {
  if (!row.hasOwnKey) return `repeats line ${first.line}; give each a key of its own if both are wanted`;
  const isSame = JSON.stringify(first.task) === JSON.stringify(row.task);
  const what = isSame ? `repeats line ${first.line}` : `differs from line ${first.line} but has the same key`;
  return `${what} (key ${describeValue(row.task.key)})`;
}

function summarize(name: string, problems: LineProblem[]): string {
  const shown = problems
    .sort((one, other) => one.line - other.line)
    .slice(0, maxShownProblems)
    .map(({ line, reason }) => `line ${line}: ${reason}`);
  const rest = problems.length - shown.length;
  const more = rest > 0 ? [`… and ${rest} more`] : [];
  return [`${name}: nothing was enqueued:`, ...shown, ...more].join("\n  ");
}
