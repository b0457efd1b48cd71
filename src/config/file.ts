import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { ConfigError, messageOf } from "../errors.ts";
import { importUserModule } from "../modules.ts";
import { describeValue } from "./validation.ts";

const extensions = ["ts", "js", "mjs", "json", "yaml", "yml"];

/** A configuration file and what it says, not checked yet. */
export interface ConfigFile {
  file: string;
  values: object;
}

/**
 * The `pawl.config.*` of the first of these folders that has one. Throws ConfigError if a folder has more than one, or if
 * it cannot be read. Messages hold no text of the file, which may hold a key.
 */
export async function loadConfigFile(folders: string[]): Promise<ConfigFile | undefined> {
  for (const folder of folders) {
    const [file, second] = extensions
      .map((extension) => path.join(folder, `pawl.config.${extension}`))
      .filter((candidate) => existsSync(candidate));
    if (file === undefined) continue;
    if (second !== undefined) {
      throw new ConfigError(`expected one configuration file, got ${file} and ${second}; remove one of them`);
    }
    const values = await readValues(file);
    if (typeof values !== "object" || values === null || Array.isArray(values)) {
      throw new ConfigError(`${file}: expected an object with settings, got ${describeValue(values)}`);
    }
    return { file, values };
  }
  return undefined;
}

async function readValues(file: string): Promise<unknown> {
  const extension = path.extname(file);
  if (extension !== ".json" && extension !== ".yaml" && extension !== ".yml") {
    const { default: settings } = await importUserModule(file);
    return settings;
  }
  try {
    const text = (await readFile(file, "utf8")).replace(/^\uFEFF/, "");
    if (extension === ".json") return JSON.parse(text);
    // An empty file, or one of comments, sets nothing.
    return (await import("yaml")).parse(text) ?? {};
  } catch (error) {
    throw new ConfigError(`${file}: cannot be read: ${withoutContent(messageOf(error))}`);
  }
}

/** The parsers' messages quote the text around the error: within the line, and YAML below it too. */
function withoutContent(message: string): string {
  const [firstLine = ""] = message.split("\n");
  const position = / at line \d+, column \d+/.exec(firstLine)?.[0] ?? "";
  return firstLine.replace(position, "").replace(/[,:] (\.\.\.)?".*$|:$/, "") + position;
}
