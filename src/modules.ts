import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { describeValue } from "./config/validation.ts";
import { ConfigError, messageOf } from "./errors.ts";
import type { Model } from "./model/model.ts";
import type { Tool } from "./tools/tool.ts";

/**
 * Imports a module of the user's, given by absolute path: JavaScript or TypeScript (types are stripped, not checked), ESM
 * or CommonJS, or JSON. `import … from "pawl"` gives it this very library, so that its errors are the ones we catch;
 * `zod` is the one installed beside the module, else ours. Throws ConfigError naming the file.
 */
export async function importUserModule(file: string): Promise<Record<string, unknown>> {
  if (!existsSync(file)) throw new ConfigError(`${file}: expected a module, got no such file`);
  const [{ createJiti }, library, zod] = await Promise.all([
    import("jiti"),
    import("./index.ts"),
    import("zod"),
  ]);
  const lent = hasModule(file, "zod") ? {} : { zod, "zod/v4": zod };
  const jiti = createJiti(file, {
    // A cache shared by everybody in the temporary folder is not worth the milliseconds.
    fsCache: false,
    interopDefault: false,
    virtualModules: { pawl: library, ...lent },
  });
  try {
    return namespaceOf(await jiti.import(file));
  } catch (error) {
    const [reason] = messageOf(error).split("\n");
    throw new ConfigError(`${file}: cannot be loaded: ${reason}`, { cause: error });
  }
}

/**
 * The tools of these modules: exports made by `defineTool`, and lists of them. Other exports are left alone, but a module
 * without any tool, an object that is only half a tool, and two tools of one name are a ConfigError naming the file.
 */
export async function loadTools(files: string[]): Promise<Tool[]> {
  const owners = new Map<string, string>();
  const tools: Tool[] = [];
  for (const file of files) {
    for (const tool of toolsOf(await importUserModule(file), file)) {
      const owner = owners.get(tool.name);
      if (owner !== undefined) {
        throw new ConfigError(
          `${file}: expected a name of its own for each tool, got "${tool.name}" again (also in ${owner})`,
        );
      }
      owners.set(tool.name, file);
      tools.push(tool);
    }
  }
  return tools;
}

/** The model of a module: its default export, or what that gives where it is a function. Throws ConfigError naming the file. */
export async function loadModel(file: string): Promise<Model> {
  const { default: exported } = await importUserModule(file);
  const found = isFactory(exported) ? await callFactory(exported, file) : exported;
  if (isModel(found)) return found;
  const got = isFactory(exported) ? `a function that gives ${describeValue(found)}` : describeValue(found);
  throw new ConfigError(
    `${file}: expected the default export to be a model (an object with a function ask), or a function that gives one, got ${got}`,
  );
}

/**
 * Why names that tasks give for tools cannot be used, by name. The modules are loaded only where a name is not built in.
 * Throws ConfigError for a module that cannot be loaded.
 */
export async function findUnknownTools(names: string[], files: string[]): Promise<Map<string, string>> {
  if (names.length === 0) return new Map();
  const [{ builtInTools }, { describeUnknownTool }] = await Promise.all([
    import("./tools/built-in.ts"),
    import("./tools/names.ts"),
  ]);
  const builtIn = builtInTools().map((tool) => tool.name);
  const others = [...new Set(names)].filter((name) => !builtIn.includes(name));
  if (others.length === 0) return new Map();
  const own = (await loadTools(files)).map((tool) => tool.name);
  const known = [...new Set([...builtIn, ...own])];
  const unknown = others.filter((name) => !own.includes(name));
  return new Map(unknown.map((name) => [name, describeUnknownTool(name, known)]));
}

/** It may ask a service for something first, so it may be asynchronous. */
async function callFactory(factory: () => unknown, file: string): Promise<unknown> {
  try {
    return await factory();
  } catch (error) {
    const [reason] = messageOf(error).split("\n");
    throw new ConfigError(`${file}: its default export failed: ${reason}`, { cause: error });
  }
}

function isFactory(value: unknown): value is () => unknown {
  return typeof value === "function";
}

function isModel(value: unknown): value is Model {
  return typeof value === "object" && value !== null && "ask" in value && typeof value.ask === "function";
}

/** Whether a module of this name is installed where a file would find it. */
function hasModule(file: string, name: string): boolean {
  try {
    createRequire(file).resolve(name);
    return true;
  } catch {
    return false;
  }
}

/** A module without a default export, and what CommonJS and JSON give, is its own default. */
function namespaceOf(loaded: unknown): Record<string, unknown> {
  if (typeof loaded !== "object" || loaded === null || Array.isArray(loaded)) return { default: loaded };
  return { ...loaded, default: "default" in loaded ? loaded.default : loaded };
}

function toolsOf(namespace: Record<string, unknown>, file: string): Tool[] {
  const tools = new Set<Tool>();
  for (const [name, exported] of exportsOf(namespace)) {
    for (const candidate of Array.isArray(exported) ? exported : [exported]) {
      if (isTool(candidate)) tools.add(candidate);
      else if (Array.isArray(exported) || looksLikeTool(candidate)) {
        throw new ConfigError(
          `${file}: expected export "${name}" to be a tool made by defineTool, got ${describeExport(candidate)}`,
        );
      }
    }
  }
  if (tools.size > 0) return [...tools];
  const found = Object.entries(namespace).map(([name, exported]) => `${name} (${describeExport(exported)})`);
  throw new ConfigError(
    `${file}: expected a tool made by defineTool, or a list of them, got ${found.join(", ")}`,
  );
}

/** Node does not always find the names in CommonJS: they are members of the default export then. */
function exportsOf(namespace: Record<string, unknown>): [string, unknown][] {
  const { default: value, ...named } = namespace;
  const isGroup =
    typeof value === "object" && value !== null && !Array.isArray(value) && !looksLikeTool(value);
  return [...Object.entries(named), ...Object.entries(isGroup ? value : { default: value })];
}

function isTool(value: unknown): value is Tool {
  return missingMembers(value).length === 0;
}

function looksLikeTool(value: unknown): boolean {
  return typeof value === "object" && value !== null && ("run" in value || "parameters" in value);
}

const members = {
  name: "string",
  description: "string",
  parameters: "object",
  parse: "function",
  run: "function",
};

function missingMembers(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return Object.keys(members);
  const found: Record<string, unknown> = { ...value };
  return Object.entries(members)
    .filter(([name, type]) => typeof found[name] !== type)
    .map(([name]) => name);
}

function describeExport(value: unknown): string {
  return looksLikeTool(value)
    ? `an object without ${missingMembers(value).join(", ")}`
    : describeValue(value);
}
