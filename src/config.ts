import { readFileSync } from "node:fs";
import path from "node:path";
import { resolveDataPaths } from "./config/data-directory.ts";
import { loadConfigFile } from "./config/file.ts";
import type { ModelParameters } from "./config/model-parameters.ts";
import { type Settings, settingsSchema } from "./config/settings.ts";
import { checkFields, kebabCase, parseTexts } from "./config/validation.ts";
import { readVariables, type Variable } from "./config/variables.ts";
import { defaultLimits, type Limits } from "./environment/limits.ts";
import { ConfigError } from "./errors.ts";
import { openingHours } from "./limits/hours.ts";
import type { ListPrices } from "./limits/prices.ts";
import type { LogLevel } from "./log.ts";
import type { Timeouts } from "./model/deadline.ts";
import { providerAt } from "./model/profiles.ts";
import { defaultMaxSteps } from "./producer/task.ts";
import type { ProtocolName } from "./protocol-name.ts";

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
  commandSilenceMs: number;
  /** What a command and all that it starts may take. */
  commandLimits: Limits;
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
    commandSilenceMs: settings.commandSilenceMs ?? 300_000,
    commandLimits: {
      processes: settings.commandProcesses ?? defaultLimits.processes,
      memoryBytes: settings.commandMemoryBytes ?? defaultLimits.memoryBytes,
      fileBytes: settings.commandFileBytes ?? defaultLimits.fileBytes,
      cpus: settings.commandCpus ?? defaultLimits.cpus,
    },
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
