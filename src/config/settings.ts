import { z } from "zod";
import { providerNames } from "../model/profiles.ts";
import { protocolNames } from "../protocol-name.ts";
import { modelParametersField } from "./model-parameters.ts";
import {
  dollars,
  hoursOfDay,
  integer,
  list,
  maxMilliseconds,
  secret,
  text,
  timeOfDay,
} from "./validation.ts";

const milliseconds = (minimum: number) =>
  integer("a whole number of milliseconds", { minimum, maximum: maxMilliseconds });
const bytes = (minimum: number) =>
  integer("a whole number of bytes", { minimum, maximum: 999_999_999_999_999 });
const maxBudgetTokens = 1_000_000_000_000;
const price = () => z.number().min(0).max(1_000_000);
const tokens = (maximum = 100_000_000) => integer("a whole number of tokens", { minimum: 1, maximum });

/** Every setting, as `pawl.config.*` writes it. Descriptions read after "expected". */
export const settingsSchema = z.strictObject({
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
  commandSilenceMs: milliseconds(1),
  commandProcesses: integer("a whole number of processes", { minimum: 1, maximum: 1_000_000 }),
  commandMemoryBytes: bytes(10_000_000),
  commandFileBytes: bytes(1_000_000),
  commandCpus: integer("a whole number of processors", { minimum: 1, maximum: 1_000 }),
  leaseMs: milliseconds(100),
  minFreeBytes: bytes(0),
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
