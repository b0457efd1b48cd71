import { readFileSync } from "node:fs";
import path from "node:path";
import { z } from "zod";
import { resolveDataPaths } from "./config/data-directory.ts";
import { loadConfigFile } from "./config/file.ts";
import { type ModelParameters, modelParametersField } from "./config/model-parameters.ts";
import {
  checkFields,
  dollars,
  hoursOfDay,
  integer,
  kebabCase,
  list,
  maxMilliseconds,
  parseTexts,
  secret,
  text,
  timeOfDay,
} from "./config/validation.ts";
import { readVariables, type Variable } from "./config/variables.ts";
import { ConfigError } from "./errors.ts";
import { openingHours } from "./limits/hours.ts";
import type { ListPrices } from "./limits/prices.ts";
import type { LogLevel } from "./log.ts";
import type { Timeouts } from "./model/deadline.ts";
import { providerAt, providerNames } from "./model/profiles.ts";
import { defaultMaxSteps } from "./producer/task.ts";
import { type ProtocolName, protocolNames } from "./protocol-name.ts";

const milliseconds = (minimum: number) =>
  integer("a whole number of milliseconds", { minimum, maximum: maxMilliseconds });
const maxBudgetTokens = 1_000_000_000_000;
const price = () => z.number().min(0).max(1_000_000);
const tokens = (maximum = 100_000_000) => integer("a whole number of tokens", { minimum: 1, maximum });

/** Every setting, as `pawl.config.*` writes it. Descriptions read after "expected". */
const settingsSchema = z.strictObject({
  model: text("the name of a model"),
  provider: z
    .enum(providerNames)
    .optional()
    .meta({ type: "text", description: `a provider (${providerNames.join(", ")})` }),
  baseUrl: url("an http or https URL", ["http:", "https:"]),
  apiKey: secret("a key without blanks"),
  contextTokens: tokens(),
  maxOutputTokens: tokens(),
  modelParameters: modelParametersField({ isStored: false }),
  stream: z.boolean().optional().meta({ type: "text", description: "true or false" }),
  connectTimeoutMs: milliseconds(1),
  firstTokenTimeoutMs: milliseconds(1),
  silenceTimeoutMs: milliseconds(1),
  requestTimeoutMs: milliseconds(1),
  modelModule: text("the path of a module"),
  tools: list("a list of paths of modules"),
  systemPrompt: text("the path of a file"),
  protocol: z
    .enum(protocolNames)
    .optional()
    .meta({ type: "text", description: protocolNames.map((name) => JSON.stringify(name)).join(" or ") }),
  maxSteps: integer("a whole number of steps", { minimum: 1, maximum: 1_000_000 }),
  timeLimitMs: milliseconds(1),
  prices: z
    .record(z.string(), z.strictObject({ input: price(), cachedInput: price().optional(), output: price() }))
    .optional()
    .meta({ type: "text", description: 'an object such as {"m": {"input": 1, "output": 4}}' }),
  budgetUsd: dollars("a number of dollars"),
  budgetTokens: tokens(maxBudgetTokens),
  dayBudgetUsd: dollars("a number of dollars"),
  dayBudgetTokens: tokens(maxBudgetTokens),
  commandTimeoutMs: milliseconds(1),
  leaseMs: milliseconds(100),
  minFreeBytes: integer("a whole number of bytes", { minimum: 0, maximum: 999_999_999_999_999 }),
  queue: url('a redis:// or rediss:// URL, or "embedded"', ["redis:", "rediss:"], ["embedded"]),
  db: z.string().superRefine(refuseDatabase).optional().meta({ type: "text", description: '"embedded"' }),
  logLevel: z
    .enum(["silent", "info", "debug"])
    .optional()
    .meta({ type: "text", description: '"silent", "info" or "debug"' }),
  concurrency: integer("a whole number of runs", { minimum: 1, maximum: 1000 }),
  requestsPerMinute: integer("a whole number of requests", { minimum: 1, maximum: 1_000_000 }),
  tokensPerMinute: tokens(),
  fallbackModels: list("a list of names of models"),
  allowedHours: hoursOfDay(),
  latestStart: timeOfDay(),
});

/** What a configuration file may say. Paths are relative to the file. */
export type Settings = z.input<typeof settingsSchema>;

/** The settings in force. Paths are absolute; null means that nobody set it. */
export interface Config {
  model: string | null;
  /** Says where the model is and how to speak with it; beside a base URL only the latter. */
  provider: string | null;
  baseUrl: string | null;
  /** The key of the base URL. */
  apiKey: string | null;
  /** What the variables named `…_API_KEY` hold, by name. */
  keys: Record<string, string>;
  /** The model's window. */
  contextTokens: number | null;
  /** Upper bound of one reply. */
  maxOutputTokens: number | null;
  /** For tasks that do not say it themselves. */
  modelParameters: ModelParameters;
  /** Bounds of one request to the model, where they are set. */
  timeouts: Partial<Timeouts>;
  /** False where replies are to come in one piece. */
  stream: boolean;
  /** File of the user's own model, which is asked in place of a service. */
  modelModule: string | null;
  /** Files of the user's tools. */
  tools: string[];
  /** Text that replaces the default system prompt. */
  systemPrompt: string | null;
  /** Of runs whose task names none; null is native, and ReAct where the model takes no tools. */
  protocol: ProtocolName | null;
  maxSteps: number;
  timeLimitMs: number | null;
  /** What models cost, before the list that pawl has. */
  prices: ListPrices;
  /** What each task may use that does not say it itself. */
  budgetUsd: number | null;
  budgetTokens: number | null;
  /** What all runs together may use a day, in UTC. */
  dayBudgetUsd: number | null;
  dayBudgetTokens: number | null;
  commandTimeoutMs: number;
  leaseMs: number;
  /** With less free on its disk a worker claims nothing new; null is the default of `roomAt`. */
  minFreeBytes: number | null;
  /** URL of Redis; null is the embedded queue. */
  queue: string | null;
  db: "embedded";
  logLevel: LogLevel;
  /** Runs a worker works on at once. */
  concurrency: number;
  /** Most requests and tokens a minute, of each model and by all workers. */
  requestsPerMinute: number | null;
  tokensPerMinute: number | null;
  /** Models of the same service to ask where the configured one may not be asked for long. */
  fallbackModels: string[];
  /** When requests are sent, and until when runs begin; see `limits/hours.ts`. */
  allowedHours: string | null;
  latestStart: string | null;
}

const variableFields: Record<string, keyof Settings> = {
  OPENAI_MODEL: "model",
  PAWL_PROVIDER: "provider",
  OPENAI_BASE_URL: "baseUrl",
  OPENAI_API_KEY: "apiKey",
  PAWL_LEASE_MS: "leaseMs",
  PAWL_MIN_FREE_BYTES: "minFreeBytes",
  PAWL_QUEUE: "queue",
  PAWL_DB: "db",
  PAWL_LOG: "logLevel",
};

/**
 * Reads the settings: flags over environment over `.env` over `pawl.config.*` (of the current folder, else of the folder
 * that holds `.pawl`) over defaults. Flags are named like the settings and may be text. Throws ConfigError that names
 * the flag, variable or file; no message repeats a key or a URL.
 */
export async function loadConfig(options: {
  cwd: string;
  env: NodeJS.ProcessEnv;
  flags?: Record<string, unknown>;
}): Promise<Config> {
  const { cwd, env, flags = {} } = options;
  const variables = readVariables({ cwd, env });
  const fromFile = await readFileSettings(configFolders({ cwd, env, variables }));
  const fromVariables = readVariableSettings(variables);
  const fromFlags = checkSettings(parseTexts(settingsSchema, flags), (name) => `--${kebabCase(name)}`);
  const settings = over(over(fromFile, fromVariables), withAbsolutePaths(fromFlags, cwd));
  openingHours(settings);
  const { connectTimeoutMs, firstTokenTimeoutMs, silenceTimeoutMs, requestTimeoutMs } = settings;
  const timeouts = { connectTimeoutMs, firstTokenTimeoutMs, silenceTimeoutMs, requestTimeoutMs };
  return {
    model: settings.model ?? null,
    provider: settings.provider ?? null,
    baseUrl: settings.baseUrl ?? null,
    apiKey: settings.apiKey ?? null,
    keys: keysOf(variables),
    contextTokens: settings.contextTokens ?? null,
    maxOutputTokens: settings.modelParameters?.maxOutputTokens ?? settings.maxOutputTokens ?? null,
    modelParameters: settings.modelParameters ?? {},
    timeouts: Object.fromEntries(Object.entries(timeouts).filter(([, value]) => value !== undefined)),
    stream: settings.stream ?? true,
    modelModule: settings.modelModule ?? null,
    tools: settings.tools ?? [],
    systemPrompt: settings.systemPrompt === undefined ? null : readPrompt(settings.systemPrompt),
    protocol: settings.protocol ?? null,
    maxSteps: settings.maxSteps ?? defaultMaxSteps,
    timeLimitMs: settings.timeLimitMs ?? null,
    prices: settings.prices ?? {},
    budgetUsd: settings.budgetUsd ?? null,
    budgetTokens: settings.budgetTokens ?? null,
    dayBudgetUsd: settings.dayBudgetUsd ?? null,
    dayBudgetTokens: settings.dayBudgetTokens ?? null,
    commandTimeoutMs: settings.commandTimeoutMs ?? 120_000,
    leaseMs: settings.leaseMs ?? 60_000,
    minFreeBytes: settings.minFreeBytes ?? null,
    queue: settings.queue === "embedded" ? null : (settings.queue ?? null),
    db: "embedded",
    logLevel: settings.logLevel ?? "info",
    concurrency: settings.concurrency ?? 4,
    requestsPerMinute: settings.requestsPerMinute ?? null,
    tokensPerMinute: settings.tokensPerMinute ?? null,
    fallbackModels: settings.fallbackModels ?? [],
    allowedHours: settings.allowedHours ?? null,
    latestStart: settings.latestStart ?? null,
  };
}

/** A provider says where the model is: the base URL of another one that stands below it does not count, nor does its key. */
function over(lower: Settings, higher: Settings): Settings {
  const { baseUrl, apiKey: _apiKey, ...others } = lower;
  const isHidden = higher.provider !== undefined && baseUrl !== undefined;
  const isSame = isHidden && providerAt(baseUrl)?.name === higher.provider;
  return { ...(isHidden && !isSame ? others : lower), ...higher };
}

function keysOf(variables: Map<string, Variable>): Record<string, string> {
  const names = [...variables.keys()].filter((name) => name.endsWith("_API_KEY")).sort();
  return Object.fromEntries(names.map((name) => [name, variables.get(name)?.value ?? ""]));
}

/** A folder named by PAWL_HOME holds data, not a project: its neighbours are not ours to run. */
function configFolders(options: {
  cwd: string;
  env: NodeJS.ProcessEnv;
  variables: Map<string, Variable>;
}): string[] {
  const { cwd, variables } = options;
  if (variables.has("PAWL_HOME")) return [cwd];
  return [...new Set([path.resolve(cwd), path.dirname(resolveDataPaths(options).dataDir)])];
}

async function readFileSettings(folders: string[]): Promise<Settings> {
  const found = await loadConfigFile(folders);
  if (!found) return {};
  const settings = checkSettings(found.values, (name) => `${found.file}: ${name}`);
  return withAbsolutePaths(settings, path.dirname(found.file));
}

function readVariableSettings(variables: Map<string, Variable>): Settings {
  const values: Record<string, unknown> = {};
  const sources: Record<string, string> = {};
  for (const [name, field] of Object.entries(variableFields)) {
    const variable = variables.get(name);
    if (!variable) continue;
    values[field] = variable.value;
    sources[field] = variable.source;
  }
  return checkSettings(parseTexts(settingsSchema, values), (name) => sources[name] ?? name);
}

function checkSettings(values: object, sourceOf: (name: string) => string): Settings {
  const checked = checkFields(settingsSchema, values);
  if ("data" in checked) return checked.data;
  throw new ConfigError(
    checked.problems.map(({ name, message }) => `${sourceOf(name)}: ${message}`).join("; "),
  );
}

function withAbsolutePaths(settings: Settings, folder: string): Settings {
  const { modelModule, tools, systemPrompt } = settings;
  return {
    ...settings,
    ...(modelModule !== undefined && { modelModule: path.resolve(folder, modelModule) }),
    ...(tools && { tools: tools.map((file) => path.resolve(folder, file)) }),
    ...(systemPrompt !== undefined && { systemPrompt: path.resolve(folder, systemPrompt) }),
  };
}

function readPrompt(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new ConfigError(`systemPrompt: expected a file that can be read, got ${code} for ${file}`, {
      cause: error,
    });
  }
}

/** A URL may hold a password, and what is no URL may be a key pasted into the wrong variable: no message repeats it. */
function url(description: string, protocols: string[], words: string[] = []) {
  return z
    .string()
    .superRefine((value, context) => {
      if (words.includes(value)) return;
      const protocol = URL.canParse(value) ? new URL(value).protocol : undefined;
      if (protocol !== undefined && protocols.includes(protocol)) return;
      const got = protocol === undefined ? "a text that is no URL" : "a URL of another kind";
      context.addIssue({ code: "custom", message: `expected ${description}, got ${got}` });
    })
    .optional()
    .meta({ type: "text", description, isSecret: true });
}

function refuseDatabase(value: string, context: z.RefinementCtx): void {
  if (value === "embedded") return;
  const message = /^postgres(ql)?:/.test(value)
    ? "PostgreSQL is not built yet; leave it out to use the embedded database"
    : 'expected "embedded" or nothing, got another text';
  context.addIssue({ code: "custom", message });
}
