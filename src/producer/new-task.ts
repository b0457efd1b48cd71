import type { ModelParameters } from "../config/model-parameters.ts";
import { ConfigError, messageOf } from "../errors.ts";
import { openingHours } from "../limits/hours.ts";
import { type ProtocolName, refusedTools } from "../protocol-name.ts";
import { withoutCredentials } from "../redact.ts";
import { checkTaskFields, fieldsFromFlags, resolvePaths, type TaskFields } from "./fields.ts";
import { chooseImages } from "./images.ts";
import { createTaskFiles, type TaskFiles } from "./named-files.ts";
import { defaultMaxSteps, limitFields, type NewTask, type TaskChanges, type TaskSpec } from "./task.ts";

/** A task as a program gives it: the fields of a line of a task file. */
export interface TaskInput {
  prompt: string;
  /** Paths or URLs; files are stored with the task. */
  images?: string[];
  repo?: string;
  ref?: string;
  dir?: string;
  key?: string;
  batch?: string;
  priority?: number;
  maxSteps?: number;
  timeLimitMs?: number;
  /** Most that the run may cost, in dollars, and most tokens of prompts and replies. */
  budgetUsd?: number;
  budgetTokens?: number;
  model?: string;
  /** Stored with the task: no place for secrets. */
  modelParameters?: ModelParameters;
  tools?: string[];
  /** Path of a file. */
  systemPrompt?: string;
  /** How the model writes its actions; as configured unless said. */
  protocol?: ProtocolName;
  /** What becomes of the workspace after a call whose outcome is unknown; `keep` unless said. */
  onInterrupt?: "keep" | "rollback";
  /** Models to ask where the run's own may not be asked for long. */
  fallbackModels?: string[];
  /** Such as `22:00-06:00`: when requests are sent. */
  allowedHours?: string;
  /** Such as `05:00`: until when the run may begin. */
  latestStart?: string;
}

/** Why names of tools cannot be used, by name. */
export type UnknownTools = ReadonlyMap<string, string>;

/**
 * The tasks of one command: one prompt, and a task for each repository. With several repositories and a key K, each
 * has the key `K/<name of the repository>`; without a key every task is a new run. Throws ConfigError naming the flags.
 */
export function tasksFromFlags(options: {
  /** Options of the command, named as in `fieldFlags`, the prompt among them; `repo` may be a list. */
  flags: Record<string, unknown>;
  cwd: string;
  batch: string | null;
  /** For what no flag says, such as the configured `maxSteps`. */
  defaults?: TaskFields;
  unknownTools?: UnknownTools;
}): NewTask[] {
  const { cwd, batch, defaults = {}, unknownTools } = options;
  const { repo: repos, ...flags } = options.flags;
  const fields = { ...defaults, ...fieldsFromFlags({ flags, cwd }) };
  const given: unknown[] = [repos].flat();
  const tasks = (given.length > 0 ? given : [undefined]).map((repo) => ({
    ...fields,
    ...fieldsFromFlags({ flags: { repo }, cwd }),
  }));
  const files = createTaskFiles();
  return (tasks.length > 1 ? withRepoKeys(tasks) : tasks).map((task) => {
    const created = createTask({ fields: task, baseDir: cwd, batch, files, unknownTools });
    if ("task" in created) return created.task;
    throw new ConfigError(created.problems.join("; "));
  });
}

/** The tasks that a program gives. Throws ConfigError that names what is wrong, and in which of several tasks. */
export function tasksFromInputs(options: {
  inputs: TaskInput[];
  cwd: string;
  defaults: TaskFields;
}): NewTask[] {
  const { inputs, cwd, defaults } = options;
  const files = createTaskFiles();
  return inputs.map((given, index) => {
    if (typeof given !== "object" || given === null)
      throw new ConfigError(`expected a task such as { prompt: "…" }, got ${JSON.stringify(given)}`);
    const { batch = null, ...input } = given;
    const checked = checkTaskFields(input);
    const created =
      "problems" in checked
        ? { problems: checked.problems.map(({ name, message }) => `${name}: ${message}`) }
        : createTask({ fields: { ...defaults, ...checked.data }, baseDir: cwd, batch, files });
    if ("task" in created) return created.task;
    const which = inputs.length > 1 ? `task ${index + 1}: ` : "";
    throw new ConfigError(`${which}${created.problems.join("; ")}`);
  });
}

/** What the flags of a retry change. Throws ConfigError naming the flags. */
export function changesFromFlags(options: { flags: Record<string, unknown>; cwd: string }): TaskChanges {
  const { systemPrompt: file, ...fields } = fieldsFromFlags(options);
  const { maxSteps, timeLimitMs, budgetUsd, budgetTokens, model, modelParameters, ...others } = fields;
  const { tools, protocol, onInterrupt, priority } = others;
  const systemPrompt = file === undefined ? undefined : createTaskFiles().read(file);
  if (file !== undefined && systemPrompt === undefined)
    throw new ConfigError(`--system-prompt: expected a file that can be read, got ${file}`);
  return {
    ...(maxSteps !== undefined && { maxSteps }),
    ...(timeLimitMs !== undefined && { timeLimitMs }),
    ...(budgetUsd !== undefined && { budgetUsd }),
    ...(budgetTokens !== undefined && { budgetTokens }),
    ...(model !== undefined && { model }),
    ...(modelParameters !== undefined && { modelParameters }),
    ...(tools !== undefined && { tools }),
    ...(protocol !== undefined && { protocol }),
    ...(systemPrompt !== undefined && { systemPrompt }),
    ...(onInterrupt !== undefined && { onInterrupt }),
    ...(priority !== undefined && { priority }),
    ...limitsOf(fields),
  };
}

/** Those of the fields that say when and whom the run may ask. */
function limitsOf(fields: TaskFields): Partial<Pick<TaskSpec, (typeof limitFields)[number]>> {
  return Object.fromEntries(
    limitFields.flatMap((name) => (fields[name] === undefined ? [] : [[name, fields[name]]])),
  );
}

/** A task from checked fields, with absolute paths and the text of its system prompt; or every reason why it is none. */
export function createTask(options: {
  fields: TaskFields;
  baseDir: string;
  batch: string | null;
  files: TaskFiles;
  unknownTools?: UnknownTools | undefined;
}): { task: NewTask } | { problems: string[] } {
  const { baseDir, batch, files, unknownTools } = options;
  const fields = resolvePaths(options.fields, baseDir);
  const { prompt, systemPrompt } = fields;
  const systemText = systemPrompt === undefined ? null : files.read(systemPrompt);
  const { images, files: imageFiles, problems: unfit } = chooseImages(fields.images ?? [], files.image);
  const problems = [...problemsOf(fields, files), ...unfit];
  const unknown = (fields.tools ?? []).flatMap((name) => unknownTools?.get(name) ?? []);
  problems.push(...unknown.map((problem) => `tools: ${problem}`));
  const refused = refusedTools(fields.protocol ?? "native", fields.tools ?? null);
  if (refused !== null) problems.push(`tools: ${refused}`);
  if (systemText === undefined) {
    problems.push(`systemPrompt: expected a file that can be read, got ${systemPrompt}`);
  }
  if (prompt === undefined || systemText === undefined || problems.length > 0) return { problems };
  return {
    task: {
      key: fields.key ?? null,
      batch,
      priority: fields.priority ?? 0,
      ...(imageFiles.length > 0 && { imageFiles }),
      spec: {
        version: 1,
        prompt,
        ...(images.length > 0 && { images }),
        repo: fields.repo ?? null,
        ref: fields.ref ?? null,
        // By its own path: two names of one folder are one folder.
        dir: fields.dir === undefined ? null : (files.folder(fields.dir) ?? fields.dir),
        maxSteps: fields.maxSteps ?? defaultMaxSteps,
        timeLimitMs: fields.timeLimitMs ?? null,
        ...(fields.budgetUsd !== undefined && { budgetUsd: fields.budgetUsd }),
        ...(fields.budgetTokens !== undefined && { budgetTokens: fields.budgetTokens }),
        model: fields.model ?? null,
        tools: fields.tools ?? null,
        systemPrompt: systemText,
        ...(fields.protocol !== undefined && { protocol: fields.protocol }),
        ...(fields.modelParameters !== undefined && { modelParameters: fields.modelParameters }),
        ...(fields.onInterrupt !== undefined && { onInterrupt: fields.onInterrupt }),
        ...limitsOf(fields),
      },
    },
  };
}

/** A missing repository is no problem here: it may appear until the run begins, and fails that run alone. */
function problemsOf(fields: TaskFields, files: TaskFiles): string[] {
  const { prompt, repo, dir, ref } = fields;
  const problems: string[] = [];
  if (prompt === undefined) problems.push("prompt: expected a text that says what to do, got nothing");
  if (repo !== undefined && dir !== undefined) problems.push("repo and dir: expected one of them, got both");
  if (ref !== undefined && repo === undefined) problems.push("ref: expected a repo with it, got none");
  if (dir !== undefined && files.folder(dir) === undefined) {
    problems.push(`dir: expected an existing folder, got ${dir}`);
  }
  try {
    openingHours(fields);
  } catch (error) {
    problems.push(`latestStart: ${messageOf(error)}`);
  }
  return problems;
}

function withRepoKeys(tasks: TaskFields[]): TaskFields[] {
  const reposByKey = new Map<string, string>();
  return tasks.map((task) => {
    const { key, repo = "" } = task;
    if (key === undefined) return task;
    const repoKey = `${key}/${repoName(repo)}`;
    const other = reposByKey.get(repoKey);
    if (other !== undefined) {
      throw new ConfigError(
        `--repo: expected a key of its own for each repository, got "${repoKey}" for both ${withoutCredentials(other)} and ${withoutCredentials(repo)}; enqueue one of them with another --key`,
      );
    }
    reposByKey.set(repoKey, repo);
    return { ...task, key: repoKey };
  });
}

/** The last part of a path or URL, without `.git`. */
function repoName(repo: string): string {
  const parts = repo
    .replace(/[?#].*$/, "")
    .split(/[/:]/)
    .filter((part) => part !== "" && part !== ".git");
  return parts.at(-1)?.replace(/\.git$/, "") ?? "repo";
}
