import { Ajv, type ErrorObject } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import { z } from "zod";
import { suggest } from "../config/validation.ts";
import { ConfigError, messageOf, RecoverableError } from "../errors.ts";

/** A tool's parameters as the model is told of them, and the check of what it sends. */
export interface Parameters<Arguments> {
  schema: Record<string, unknown>;
  /** Throws RecoverableError that names each bad field, what was expected and what was got. */
  parse(value: unknown): Arguments;
}

/** How much of a wrong value is shown to the model. */
const previewChars = 60;

/**
 * Parameters by a zod object. Its refinements must be synchronous. A strict one refuses what it does not know, but takes
 * `time_out` for its `timeOut`: many models write so whatever the schema says.
 */
export function zodParameters<Schema extends z.ZodObject>(schema: Schema): Parameters<z.output<Schema>> {
  return {
    schema: jsonSchemaOf(schema),
    parse(value) {
      const result = safeParse(schema, value);
      if (result.success) return result.data;
      throw new RecoverableError(
        describeProblems(result.error.issues.flatMap((issue) => describeIssue(issue, value, schema))),
      );
    },
  };
}

/** Parameters by plain JSON Schema (draft 7, or 2020-12 where `$schema` says so). Defaults are filled in. */
export function jsonSchemaParameters(schema: Record<string, unknown>): Parameters<Record<string, unknown>> {
  if (schema.type !== "object") {
    throw new ConfigError(
      `a tool's parameters must be a schema of type "object", got ${describe(schema.type)}`,
    );
  }
  const is2020 = typeof schema.$schema === "string" && schema.$schema.includes("2020-12");
  const options = { strict: false, allErrors: true, useDefaults: true, validateFormats: false } as const;
  const ajv = is2020 ? new Ajv2020(options) : new Ajv(options);
  const validate = ajv.compile<Record<string, unknown>>(schema);
  return {
    schema,
    parse(value) {
      const copy = structuredClone(value);
      if (validate(copy)) return copy;
      const errors = validate.errors ?? [];
      const withoutNulls = dropNulls(value);
      if (withoutNulls !== undefined && validate(withoutNulls)) return withoutNulls;
      throw new RecoverableError(
        describeProblems(errors.map((error) => describeSchemaError(error, value, schema))),
      );
    },
  };
}

/** A value in a few words, for an error message. */
export function describe(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (typeof value === "object") return `an object with ${Object.keys(value).join(", ") || "no fields"}`;
  const text = JSON.stringify(value);
  return `${typeof value} ${text.length > previewChars ? `${text.slice(0, previewChars)}…` : text}`;
}

function jsonSchemaOf(schema: z.ZodObject): Record<string, unknown> {
  try {
    const { $schema, ...rest } = z.toJSONSchema(schema, { io: "input" });
    return rest;
  } catch (error) {
    throw new ConfigError(`a tool's zod parameters must be expressible as JSON Schema: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

/** Models send null for an optional field they leave out; it is taken as left out where null itself is wrong. */
function safeParse<Schema extends z.ZodObject>(schema: Schema, value: unknown) {
  const result = schema.safeParse(value);
  if (result.success) return result;
  const unknown = result.error.issues.flatMap((issue) => (issue.path.length === 0 ? unknownKeys(issue) : []));
  const mended = renameKeys(dropNulls(value), { unknown, known: Object.keys(schema.shape) });
  const second = mended === undefined ? result : schema.safeParse(mended);
  return second.success ? second : result;
}

function unknownKeys(issue: z.core.$ZodIssue): string[] {
  return issue.code === "unrecognized_keys" ? issue.keys : [];
}

/** Unknown names in snake case become the known ones they mean, unless those are given too. */
function renameKeys(
  value: Record<string, unknown> | undefined,
  { unknown, known }: { unknown: string[]; known: string[] },
): Record<string, unknown> | undefined {
  if (value === undefined) return undefined;
  const entries = Object.entries(value).map(([key, field]) => {
    const meant = key.replace(/_+([a-z0-9])/gi, (_, letter: string) => letter.toUpperCase());
    const isMeant = unknown.includes(key) && known.includes(meant) && !Object.hasOwn(value, meant);
    return [isMeant ? meant : key, field];
  });
  return Object.fromEntries(entries);
}

function dropNulls(value: unknown): Record<string, unknown> | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  return structuredClone(Object.fromEntries(Object.entries(value).filter(([, field]) => field !== null)));
}

function describeProblems(problems: string[]): string {
  return `the arguments do not fit the tool's parameters:\n${problems.map((problem) => `- ${problem}`).join("\n")}`;
}

function describeIssue(issue: z.core.$ZodIssue, value: unknown, schema: z.ZodObject): string[] {
  const unknown = unknownKeys(issue);
  const known = issue.path.length === 0 ? Object.keys(schema.shape) : [];
  if (unknown.length > 0) return unknown.map((key) => noSuchParameter([...issue.path, key], known));
  const expected = issue.code === "invalid_type" ? `expected ${issue.expected}` : issue.message;
  return [`${issue.path.join(".") || "arguments"}: ${expected}, got ${describe(valueAt(value, issue.path))}`];
}

function noSuchParameter(path: PropertyKey[], known: string[]): string {
  const names = known.length === 0 ? "" : `; the parameters are: ${known.join(", ")}`;
  return `${path.join(".")}: no such parameter${suggest(String(path.at(-1)), known)}${names}`;
}

function describeSchemaError(
  error: ErrorObject,
  value: unknown,
  { properties }: Record<string, unknown>,
): string {
  const path = error.instancePath.split("/").slice(1);
  if (error.keyword === "required") {
    return `${[...path, error.params.missingProperty].join(".")}: required, got nothing`;
  }
  if (error.keyword === "additionalProperties") {
    const known = path.length === 0 ? Object.keys(Object(properties)) : [];
    return noSuchParameter([...path, error.params.additionalProperty], known);
  }
  const allowed = error.keyword === "enum" ? ` ${JSON.stringify(error.params.allowedValues)}` : "";
  return `${path.join(".") || "arguments"}: ${error.message ?? error.keyword}${allowed}, got ${describe(valueAt(value, path))}`;
}

function valueAt(value: unknown, path: PropertyKey[]): unknown {
  let current = value;
  for (const key of path) {
    if (typeof current !== "object" || current === null) return undefined;
    current = Reflect.get(current, key);
  }
  return current;
}
