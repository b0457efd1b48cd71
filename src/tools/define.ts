import type { z } from "zod";
import { ConfigError, messageOf } from "../errors.ts";
import { jsonSchemaParameters, type Parameters, zodParameters } from "./parameters.ts";
import { type Tool, type ToolClass, toolClasses } from "./tool.ts";

/** What a tool is made of. `parameters` is a zod object or plain JSON Schema of type object. */
export interface ToolDefinition<Schema, Arguments> extends Pick<Tool<Arguments>, "run" | "recover"> {
  /** Unique among the tools of a run; letters, digits, `_` and `-`, at most 64. */
  name: string;
  /** Says to the model when and how to use it. */
  description: string;
  parameters: Schema;
  /** What may happen to a call that was running when its worker died; `unsafe` unless said. */
  class?: ToolClass;
}

const namePattern = /^[a-zA-Z0-9_-]{1,64}$/;

/**
 * Makes a tool. What `run` throws goes back to the model as an error, except TerminatingError, which ends the run.
 * Throws ConfigError for a name or parameters that no model could be told of.
 */
export function defineTool<Schema extends z.ZodObject>(
  definition: ToolDefinition<Schema, z.output<Schema>>,
): Tool<z.output<Schema>>;
export function defineTool(
  definition: ToolDefinition<Record<string, unknown>, Record<string, unknown>>,
): Tool<Record<string, unknown>>;
export function defineTool(
  definition: ToolDefinition<z.ZodObject | Record<string, unknown>, Record<string, unknown>>,
): Tool<Record<string, unknown>> {
  const { name, description, run, recover } = definition;
  if (typeof name !== "string" || !namePattern.test(name)) {
    throw new ConfigError(
      `a tool's name must be 1 to 64 letters, digits, "_" or "-", got ${JSON.stringify(name)}: rename it`,
    );
  }
  if (typeof run !== "function") {
    throw new ConfigError(`the tool "${name}" needs a function run, got ${typeof run}`);
  }
  const toolClass = definition.class ?? "unsafe";
  if (!toolClasses.includes(toolClass)) {
    throw new ConfigError(
      `the tool "${name}": expected a class that is ${toolClasses.join(", ")}, got ${JSON.stringify(toolClass)}`,
    );
  }
  const { schema, parse } = parametersOf(name, definition.parameters);
  return {
    name,
    description,
    parameters: schema,
    class: toolClass,
    parse,
    run,
    ...(recover === undefined ? {} : { recover }),
  };
}

function parametersOf(
  name: string,
  parameters: z.ZodObject | Record<string, unknown>,
): Parameters<Record<string, unknown>> {
  try {
    if (isZodObject(parameters)) return zodParameters(parameters);
    if (typeof parameters === "object" && parameters !== null && !("_def" in parameters)) {
      return jsonSchemaParameters(parameters);
    }
  } catch (error) {
    throw new ConfigError(`the tool "${name}": ${messageOf(error)}`, { cause: error });
  }
  throw new ConfigError(`the tool "${name}" needs parameters: a zod (version 4) object or plain JSON Schema`);
}

/** By its shape, because a user's zod may be another copy than ours. */
function isZodObject(parameters: unknown): parameters is z.ZodObject {
  if (typeof parameters !== "object" || parameters === null) return false;
  return "_zod" in parameters && "shape" in parameters;
}
