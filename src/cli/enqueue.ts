import { readFile } from "node:fs/promises";
import path from "node:path";
import { type BatchBudget, type BatchBudgetChange, requirePrice } from "../budgets.ts";
import { loadConfig } from "../config.ts";
import { ConfigError, messageOf } from "../errors.ts";
import { describeAmount } from "../limits/budget.ts";
import { findUnknownTools } from "../modules.ts";
import { runPaths } from "../paths.ts";
import { openPawl, type Pawl } from "../pawl.ts";
import { batchBudgetFromFlags } from "../producer/batch-budget.ts";
import { fieldFlags, fieldsFromFlags } from "../producer/fields.ts";
import { tasksFromFlags, type UnknownTools } from "../producer/new-task.ts";
import type { EnqueueResult, NewTask } from "../producer/task.ts";
import { parseTaskFile, taskFileFormat } from "../producer/task-file.ts";
import { withoutCredentials } from "../redact.ts";
import { counted, flat } from "../report/text.ts";
import { taskDefaults } from "../task-defaults.ts";
import { note, print, printJson } from "./output.ts";

type Options = Record<string, unknown> & { file?: string; batch?: string; dryRun?: boolean; json?: boolean };

/** More rows than this are counted, not listed, for people. */
const maxListed = 20;

/** `pawl enqueue`: adds one task for each repository, or those of a file; all or none. */
export async function enqueue(prompt: string | undefined, options: Options): Promise<void> {
  const config = await loadConfig({ cwd: process.cwd(), env: process.env });
  const batch = options.batch ?? null;
  const defaults = taskDefaults(config);
  const cwd = process.cwd();
  const budget = batchBudgetFromFlags(options);
  if (budget && prompt === undefined && options.file === undefined) return withBudget(batch ?? "", budget);
  const read =
    options.file === undefined
      ? fromFlags(prompt, options, { batch, defaults })
      : await fromFile(options.file, prompt, options, { batch, defaults });
  const tasks = await readTasks(read, config.tools);
  for (const { spec } of tasks)
    requirePrice(config, { model: spec.model, budgetUsd: spec.budgetUsd ?? budget?.usd });
  if (options.dryRun) return showTasks(tasks, options.json ?? false);
  const pawl = await openPawl({ cwd });
  try {
    // First, so that no run begins without it.
    if (budget) describeBudget(batch ?? "", await pawl.setBatchBudget(batch ?? "", budget)).forEach(note);
    const results = await pawl.enqueueParsed(tasks);
    if (options.json) return results.forEach(printJson);
    for (const line of results
      .slice(0, maxListed)
      .map((result, index) => describe(result, tasks[index], pawl)))
      print(line);
    const created = results.filter((result) => result.created).length;
    note(
      `${created} enqueued, ${results.length - created} already there${results.length > maxListed ? ` (${maxListed} shown)` : ""}`,
    );
  } finally {
    await pawl.close();
  }
}

/** The budget alone, without new tasks. */
async function withBudget(batch: string, budget: BatchBudget): Promise<void> {
  const pawl = await openPawl({ cwd: process.cwd() });
  try {
    describeBudget(batch, await pawl.setBatchBudget(batch, budget)).forEach(note);
  } finally {
    await pawl.close();
  }
}

function describeBudget(batch: string, { before, after, resumed }: BatchBudgetChange): string[] {
  const amounts = ({ micro, tokens }: BatchBudgetChange["after"]) =>
    [
      ...(micro === null ? [] : [describeAmount("usd", micro)]),
      ...(tokens === null ? [] : [describeAmount("tokens", tokens)]),
    ].join(" and ");
  const isSame = before && amounts(before) === amounts(after);
  const old = before && !isSame ? ` (it was ${amounts(before)})` : "";
  return [
    `batch ${flat(batch)} may use ${amounts(after)}${old}`,
    ...(resumed.length > 0 ? [`${counted(resumed.length, "run")} that waited for it can go on`] : []),
  ];
}

function describe(
  { id, key, created, changed }: EnqueueResult,
  task: NewTask | undefined,
  pawl: Pawl,
): string {
  const isPlaceless = task?.spec.repo === null && task.spec.dir === null;
  const place = isPlaceless ? `, in an empty folder: ${runPaths(pawl.paths, id).workspace}` : "";
  const old = changed ? "exists, but its task differs (the run is untouched)" : "already there";
  return [id, ...(key === null ? [] : [flat(key)]), created ? `enqueued${place}` : old].join("  ");
}

/** Names of tools are looked up once all else is right: modules need not be loaded for what is refused anyway. */
export async function readTasks(read: Read, modules: string[]): Promise<NewTask[]> {
  const tasks = read(new Map());
  const names = tasks.flatMap(({ spec }) => spec.tools ?? []);
  const unknown = await findUnknownTools(names, modules);
  return unknown.size === 0 ? tasks : read(unknown);
}

/** Throws ConfigError that names the tasks with a tool that is among the unknown ones. */
type Read = (unknownTools: UnknownTools) => NewTask[];

interface Settings {
  batch: string | null;
  defaults: ReturnType<typeof taskDefaults>;
}

function fromFlags(prompt: string | undefined, options: Options, { batch, defaults }: Settings): Read {
  if (prompt === undefined) {
    throw new ConfigError(
      'expected a prompt or --file, got neither: pawl enqueue "PROMPT", or pawl enqueue --file tasks.jsonl',
    );
  }
  const flags = { ...options, prompt };
  return (unknownTools) => tasksFromFlags({ flags, cwd: process.cwd(), batch, defaults, unknownTools });
}

/** Flags are defaults for the rows of a file. */
async function fromFile(
  file: string,
  prompt: string | undefined,
  options: Options,
  { batch, defaults }: Settings,
): Promise<Read> {
  const cwd = process.cwd();
  if (options.key !== undefined)
    throw new ConfigError("expected --key with one task, got it with --file: keys of a file are in its rows");
  const repos = options.repo as string[] | undefined;
  if (repos && repos.length > 1)
    throw new ConfigError("expected one --repo at the most with --file, got several: give each row its repo");
  const { repo: _repos, ...flags } = pickFields(options);
  const given = { ...flags, ...(prompt !== undefined && { prompt }), ...(repos && { repo: repos[0] }) };
  const format = file === "-" ? "jsonl" : taskFileFormat(file);
  const input = {
    content: await readContent(file),
    format,
    name: file === "-" ? "standard input" : file,
    baseDir: file === "-" ? cwd : path.dirname(path.resolve(file)),
    batch,
    defaults: { ...defaults, ...fieldsFromFlags({ flags: given, cwd }) },
  } as const;
  return (unknownTools) => parseTaskFile({ ...input, unknownTools });
}

function pickFields(options: Options): Record<string, unknown> {
  return Object.fromEntries(
    fieldFlags.flatMap(({ name }) => (options[name] === undefined ? [] : [[name, options[name]]])),
  );
}

async function readContent(file: string): Promise<Uint8Array> {
  try {
    if (file !== "-") return await readFile(file);
    if (process.stdin.isTTY)
      note("reading tasks from the terminal, one JSON object a line; Ctrl-D ends them");
    const chunks: Uint8Array[] = [];
    for await (const chunk of process.stdin) chunks.push(Buffer.from(chunk));
    return Buffer.concat(chunks);
  } catch (error) {
    throw new ConfigError(`expected a file of tasks that can be read, got ${file}: ${messageOf(error)}`);
  }
}

function showTasks(tasks: NewTask[], json: boolean): void {
  for (const task of tasks) {
    const repo = task.spec.repo === null ? null : withoutCredentials(task.spec.repo);
    if (json) printJson({ key: task.key, batch: task.batch, priority: task.priority, ...task.spec, repo });
    else
      print(
        `${flat(task.key ?? "(no key)")}  ${repo ?? task.spec.dir ?? "(empty folder)"}  ${task.spec.prompt.split("\n")[0]}`,
      );
  }
  note(`${counted(tasks.length, "task")} would be enqueued; nothing was`);
}
