import { readFileSync } from "node:fs";
import path from "node:path";
import { parse } from "dotenv";
import { ConfigError } from "../errors.ts";

/** A variable that is set, and where: its name, or its name and the `.env` file. */
export interface Variable {
  value: string;
  source: string;
}

/**
 * The environment over the `.env` file of the current folder. A variable that the environment sets to nothing hides the
 * file's; empty ones count as not set. `process.env` is never changed.
 */
export function readVariables(options: { cwd: string; env: NodeJS.ProcessEnv }): Map<string, Variable> {
  const file = path.join(options.cwd, ".env");
  const variables = new Map<string, Variable>();
  for (const [name, value] of Object.entries(parse(readIfThere(file)))) {
    variables.set(name, { value: value.trim(), source: `${name} in ${file}` });
  }
  for (const [name, value] of Object.entries(options.env)) {
    if (value !== undefined) variables.set(name, { value: value.trim(), source: name });
  }
  for (const [name, { value }] of variables) if (value === "") variables.delete(name);
  return variables;
}

function readIfThere(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // Some people keep a Python virtual environment in a folder of this name.
    if (code === "ENOENT" || code === "EISDIR" || code === "ENOTDIR") return "";
    throw new ConfigError(`${file}: expected a file that can be read, got ${code}`, { cause: error });
  }
}
