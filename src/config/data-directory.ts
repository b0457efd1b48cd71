import { createHash } from "node:crypto";
import { existsSync, readFileSync, statSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { ConfigError, messageOf } from "../errors.ts";
import type { DataPaths } from "../paths.ts";
import { requirePlatform } from "../platform.ts";
import { readVariables } from "./variables.ts";

const folderName = ".pawl";
const privateMode = 0o700;

/**
 * Where pawl keeps its data: `PAWL_HOME`, else the nearest `.pawl` folder upward, else `./.pawl`. Looks only and makes
 * nothing; `hasData` says whether there is anything yet. Everything begins here, so on Windows this throws ConfigError.
 *
 * A `.pawl` in a parent folder counts only if it is the user's own: its owner decides what runs.
 */
export function resolveDataPaths(options: { cwd: string; env: NodeJS.ProcessEnv }): DataPaths {
  requirePlatform(process.platform);
  const variables = readVariables(options);
  const home = variables.get("PAWL_HOME")?.value;
  if (home !== undefined) {
    const dataDir = path.resolve(options.cwd, home);
    return pathsOf(dataDir, path.join(dataDir, "workspaces"));
  }
  const dataDir = findDataDirectory(options.cwd) ?? path.resolve(options.cwd, folderName);
  const given = variables.get("XDG_STATE_HOME")?.value ?? "";
  const userHome = variables.get("HOME")?.value ?? os.homedir();
  // The XDG specification says to ignore a relative path.
  const stateHome = path.isAbsolute(given) ? given : path.join(userHome, ".local", "state");
  return pathsOf(dataDir, path.join(stateHome, "pawl", dataIdOf(dataDir)));
}

/** Whether anything was ever stored there. Throws ConfigError for what is no folder, or cannot be looked into. */
export function hasData(paths: DataPaths): boolean {
  try {
    statSync(paths.database);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return false;
    const got = code === "ENOTDIR" ? "a path that is none" : `${code}`;
    throw new ConfigError(
      `expected the data directory ${paths.dataDir} to be a folder that can be read, got ${got}: set PAWL_HOME to another folder`,
      { cause: error },
    );
  }
}

/** Makes the data directory and the folder of the workspaces, both for the user alone; again is harmless. */
export async function createDataDirectory(paths: DataPaths): Promise<void> {
  try {
    const isNew = await makeFolder(paths.dataDir);
    // An existing folder named by PAWL_HOME may hold other things, which are not ours to hide from git.
    if (isNew || path.basename(paths.dataDir) === folderName) {
      await writeOnce(path.join(paths.dataDir, ".gitignore"), "*\n");
    }
    await writeOnce(idFile(paths.dataDir), `${dataIdOf(paths.dataDir)}\n`);
    await makeFolder(paths.workspaces);
  } catch (error) {
    throw new ConfigError(
      `cannot make the data directory ${paths.dataDir}: ${messageOf(error)}; set PAWL_HOME to a folder that can be written`,
      { cause: error },
    );
  }
}

/**
 * Makes a folder for the user alone, and those above it; true if it was not there. Node's own way never returns where the
 * system takes no new folders, as in /proc.
 */
async function makeFolder(folder: string): Promise<boolean> {
  try {
    return await makeOne(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
  await makeFolder(path.dirname(folder));
  return makeOne(folder);
}

async function makeOne(folder: string): Promise<boolean> {
  try {
    await mkdir(folder, { mode: privateMode });
    return true;
  } catch (error) {
    const stats = statSync(folder, { throwIfNoEntry: false });
    if (!stats?.isDirectory()) throw error;
    return false;
  }
}

function pathsOf(dataDir: string, workspaces: string): DataPaths {
  return {
    dataDir,
    database: path.join(dataDir, "pawl.db"),
    repos: path.join(dataDir, "repos"),
    workspaces,
  };
}

function findDataDirectory(cwd: string): string | undefined {
  const start = path.resolve(cwd);
  for (let folder = start; ; folder = path.dirname(folder)) {
    const candidate = path.join(folder, folderName);
    const stats = statSync(candidate, { throwIfNoEntry: false });
    const isOwn = folder === start || stats?.uid === (process.getuid?.() ?? stats?.uid);
    if (stats?.isDirectory() && isOwn) return candidate;
    if (folder === path.dirname(folder)) return undefined;
  }
}

/** Stored once, so that a moved data directory keeps its workspaces; before that the path decides, the same for everybody. */
function dataIdOf(dataDir: string): string {
  const file = idFile(dataDir);
  const stored = existsSync(file) ? readFileSync(file, "utf8").trim() : "";
  if (/^[0-9a-f]{12}$/.test(stored)) return stored;
  return createHash("sha256").update(dataDir).digest("hex").slice(0, 12);
}

function idFile(dataDir: string): string {
  return path.join(dataDir, "id");
}

async function writeOnce(file: string, content: string): Promise<void> {
  try {
    await writeFile(file, content, { flag: "wx", mode: 0o600 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}
