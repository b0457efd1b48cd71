import path from "node:path";
import { z } from "zod";
import { modelParametersField } from "../config/model-parameters.ts";
import {
  type Checked,
  checkFields,
  dollars,
  type FieldType,
  hoursOfDay,
  integer,
  kebabCase,
  list,
  maxMilliseconds,
  metaOf,
  parseTexts,
  text,
  timeOfDay,
} from "../config/validation.ts";
import { ConfigError } from "../errors.ts";
import { protocolNames } from "../protocol-name.ts";
import { isUrl } from "./images.ts";

/** Git would take a leading dash for an option. */
const noOption = z.string().regex(/^[^-]/);

/**
 * Every field of a task, as a line of a file writes it. One table: lines and flags are checked by it, flags are made from
 * it. Descriptions read after "expected" and as a flag's help.
 */
const fieldsSchema = z.strictObject({
  prompt: text("a text that says what to do"),
  images: list("a list of paths or URLs of images that belong to the prompt"),
  repo: text("the path or URL of a git repository, of which the run gets its own clone", noOption),
  dir: text("the path of a folder to work in as it is"),
  ref: text("a branch, tag or commit of the repository", noOption),
  key: text("a text that names the task within its batch", z.string().regex(/^[^\p{Surrogate}\p{Cc}]+$/u)),
  id: text(
    "a text that names the task within its batch (the same as key)",
    z.string().regex(/^[^\p{Surrogate}\p{Cc}]+$/u),
  ),
  priority: integer("a whole number, the higher the sooner,", { minimum: -1_000_000, maximum: 1_000_000 }),
  maxSteps: integer("the most steps the run may take, a whole number", { minimum: 1, maximum: 1_000_000 }),
  timeLimitMs: integer("the most active time in milliseconds, a whole number", {
    minimum: 1,
    maximum: maxMilliseconds,
  }),
  budgetUsd: dollars("the most the run may cost, in dollars,"),
  budgetTokens: integer("the most tokens of prompts and replies, a whole number", {
    minimum: 1,
    maximum: 1_000_000_000_000,
  }),
  model: text("the name of a model"),
  modelParameters: modelParametersField({ isStored: true }),
  tools: list("a list of names of tools"),
  systemPrompt: text("the path of a file that holds the system prompt"),
  fallbackModels: list("a list of models to ask where the run's own may not be asked for long"),
  allowedHours: hoursOfDay(),
  latestStart: timeOfDay(),
  onInterrupt: choice("what becomes of the workspace after a call whose outcome is unknown", [
    "keep",
    "rollback",
  ]),
  protocol: choice("how the model writes its actions", protocolNames),
  environment: onlyBuilt("where commands run", "local"),
});

/** The fields that somebody wrote, checked. */
export type TaskFields = Omit<z.output<typeof fieldsSchema>, "id" | "environment">;

/** Fields that are known, but refused by name until they are built. */
const plannedFields: Record<string, FieldType> = {
  setup: "text",
  verify: "text",
  vars: "text",
  at: "text",
};

/** A field of a task as a flag of `run` and `enqueue`. */
export interface FieldFlag {
  /** As in a file: `maxSteps`. */
  name: string;
  /** As the command line writes it: `--max-steps`. */
  flag: string;
  type: FieldType;
  help: string;
  /** Given once for each item of a list, in place of a list with commas: URLs hold commas. */
  isRepeated: boolean;
  /** False for those that are refused by name. */
  isBuilt: boolean;
  /** Whether a retry may change it. */
  isForRetry: boolean;
}

/** What a task is and where it works: a retry with another of these would be another task. */
const identity = ["prompt", "images", "key", "repo", "dir", "ref"];

/** The list whose flag is given once for each item: `--image`. */
const repeated = "images";

/** Every field as a flag, `id` (the same as `key`) aside. */
export const fieldFlags: FieldFlag[] = [
  ...Object.entries(fieldsSchema.shape)
    .filter(([name]) => name !== "id")
    .map(([name, field]) => ({ name, ...metaOf(field), isBuilt: true })),
  ...Object.entries(plannedFields).map(([name, type]) => ({
    name,
    type,
    description: "not built yet",
    isBuilt: false,
  })),
].map(({ name, type, description, isBuilt }) => ({
  name,
  flag: flagOf(name),
  type: name === repeated ? "text" : type,
  help: name === repeated ? `${description}; once for each` : description,
  isRepeated: name === repeated,
  isBuilt,
  isForRetry: !identity.includes(name),
}));

/** Checks the fields of one task; every problem is reported. */
export function checkTaskFields(value: object): Checked<TaskFields> {
  const isPlanned = ([name, member]: [string, unknown]) =>
    Object.hasOwn(plannedFields, name) && member != null;
  const entries = Object.entries(value);
  const planned = entries
    .filter(isPlanned)
    .map(([name]) => ({ name, message: "not built yet; leave it out" }));
  const others = entries.filter(([name]) => !Object.hasOwn(plannedFields, name));
  const checked = checkFields(fieldsSchema, Object.fromEntries(others));
  if ("problems" in checked) return { problems: [...planned, ...checked.problems] };
  if (planned.length > 0) return { problems: planned };
  const { id, key = id, environment: _environment, ...fields } = checked.data;
  if (id !== undefined && id !== key) {
    return { problems: [{ name: "id", message: "says something else than key; give one of them" }] };
  }
  return { data: key === undefined ? fields : { ...fields, key } };
}

/**
 * Picks the task's fields from the options of a command (names as in `fieldFlags`; values may be text) and makes their
 * paths absolute. Throws ConfigError naming the flags.
 */
export function fieldsFromFlags(options: { flags: Record<string, unknown>; cwd: string }): TaskFields {
  const names = new Set(fieldFlags.map(({ name }) => name));
  const given = Object.fromEntries(Object.entries(options.flags).filter(([name]) => names.has(name)));
  const checked = checkTaskFields(parseTexts(fieldsSchema, given));
  if ("data" in checked) return resolvePaths(checked.data, options.cwd);
  throw new ConfigError(
    checked.problems.map(({ name, message }) => `${flagOf(name)}: ${message}`).join("; "),
  );
}

/** Makes the paths of a task absolute; URLs and `host:path` stay. */
export function resolvePaths(fields: TaskFields, baseDir: string): TaskFields {
  const { images, repo, dir, systemPrompt } = fields;
  return {
    ...fields,
    ...(images && { images: images.map((place) => (isUrl(place) ? place : path.resolve(baseDir, place))) }),
    ...(repo !== undefined && { repo: isRemote(repo) ? repo : path.resolve(baseDir, repo) }),
    ...(dir !== undefined && { dir: path.resolve(baseDir, dir) }),
    ...(systemPrompt !== undefined && { systemPrompt: path.resolve(baseDir, systemPrompt) }),
  };
}

function flagOf(name: string): string {
  return name === repeated ? "--image" : `--${kebabCase(name)}`;
}

/** Git's own rule: a scheme, or a colon before the first slash. */
function isRemote(repo: string): boolean {
  return /^[a-z][a-z\d+.-]*:\/\//i.test(repo) || /^[^/\\:]+:/.test(repo);
}

function choice<const Values extends readonly [string, ...string[]]>(description: string, values: Values) {
  const named = values.map((value) => JSON.stringify(value)).join(" or ");
  return z
    .enum(values)
    .optional()
    .meta({ type: "text", description: `${named} (${description})` });
}

function onlyBuilt(description: string, value: string) {
  return z
    .literal(value)
    .optional()
    .meta({ type: "text", description: `"${value}" (${description}; nothing else is built yet)` });
}
