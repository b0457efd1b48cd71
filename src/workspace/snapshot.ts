import { randomUUID } from "node:crypto";
import { link, lstat, rename } from "node:fs/promises";
import path from "node:path";
import { isDiskFull, saysDiskFull } from "../full-disk.ts";
import type { RunPaths } from "../paths.ts";
import {
  encodeList,
  exitError,
  GitError,
  type GitOptions,
  git,
  gitList,
  rawPath,
  removeIndex,
  tryGit,
} from "./git.ts";
import { settleTimes, unsettleTimes } from "./index-times.ts";
import { storeOptions } from "./snapshot-store.ts";

/** Above these, counting what is new or changed since the last snapshot, none is taken. */
const maxSnapshotFiles = 100_000;
const maxSnapshotBytes = 512 * 1024 * 1024;
const maxListBytes = 32 * 1024 * 1024;
const snapshotTimeoutMs = 120_000;
const maxNestedRepositories = 200;
const statBatch = 128;
/** So many files at once are worth another look at their times. */
const manyFiles = 100;
const updateIndex = ["update-index", "--add", "--replace", "-z", "--stdin"];

interface SnapshotOptions {
  /** The workspace. */
  path: string;
  run: RunPaths;
  signal?: AbortSignal | undefined;
  /** Files to record even if they are ignored, because a commit tracks them; as git printed them. */
  tracked?: string[];
  /** Lower bounds for tests. */
  maxFiles?: number;
  maxBytes?: number;
}

/**
 * Records the workspace as a git tree, byte for byte, and returns the tree's id, or why there is none. Ignored files,
 * `.git` folders and `.pawl` are left out; repositories inside of the workspace are recorded as plain files. Cheap where
 * nothing changed: the run's index remembers file times. Rejects where the disk is full; it may be taken again then.
 */
export async function snapshot(
  options: SnapshotOptions,
): Promise<{ tree: string; notes: string[] } | { skipped: string }> {
  const { run, signal } = options;
  // A copy of its own: neither an owner that was killed nor one that lost its lease can hold or spoil the index.
  const index = `${run.index}.${randomUUID()}`;
  try {
    await link(run.index, index).catch(() => {});
    const inWorkspace = workspaceGit(options, index);
    const writeTree = () => git(["write-tree"], { ...storeOptions(run, index), signal });
    await settleTimes(run, inWorkspace);
    await recordTracked(options, inWorkspace);
    // Mostly nothing has changed; then the tree is there as soon as that is known.
    const [listed, before] = await Promise.all([listChanges(inWorkspace), writeTree()]);
    if (listed === null) return { skipped: `more than ${maxListBytes} bytes of file names` };
    const notes = await recordChanges(options, listed, inWorkspace);
    if ("skipped" in notes) return notes;
    const tree = listed.length === 0 ? before : await writeTree();
    await rename(index, run.index);
    return { tree, notes };
  } catch (error) {
    if (!(error instanceof GitError) || isDiskFull(error)) throw error;
    return { skipped: error.message };
  } finally {
    await removeIndex(index);
  }
}

/** Folders that hold no file of the last snapshot and nothing ignored, as git printed them, without the last slash. */
export async function emptyFolders(options: SnapshotOptions): Promise<string[]> {
  const args = ["ls-files", "-z", "--others", "--directory", "--exclude-standard"];
  const entries = await gitList(args, workspaceGit(options, options.run.index));
  return entries.filter((entry) => entry.endsWith("/")).map((entry) => entry.slice(0, -1));
}

function workspaceGit(options: SnapshotOptions, index: string): GitOptions & { env: Record<string, string> } {
  const store = storeOptions(options.run, index);
  return {
    ...store,
    env: { ...store.env, GIT_WORK_TREE: options.path },
    cwd: options.path,
    timeoutMs: snapshotTimeoutMs,
    maxOutputBytes: maxListBytes,
    signal: options.signal,
  };
}

async function recordChanges(
  options: SnapshotOptions,
  listed: string[],
  inWorkspace: GitOptions & { env: Record<string, string> },
): Promise<string[] | { skipped: string }> {
  if (listed.length === 0) return [];
  const nested = await nestedFiles(listed, inWorkspace);
  const files = [...listed.filter((entry) => !entry.endsWith("/")), ...nested.files];
  const over = await overLimit(options, files);
  if (over !== null) return { skipped: over };
  if (files.length > manyFiles) await unsettleTimes(options.run);
  if (nested.files.length > 0) {
    const input = encodeList(nested.files);
    await git(updateIndex, { ...inWorkspace, input });
  }
  const without = nested.empty.map((folder) => `:(exclude,literal)${folder.slice(0, -1)}`);
  const added = await tryGit(["add", "--all", "--ignore-errors", "--", ".", ...without], inWorkspace);
  if (added.exitCode > 1 || saysDiskFull(added.stderr)) throw await exitError(added.stderr, inWorkspace);
  if (added.exitCode === 0) return [];
  const failed = added.stderr.match(/^error: (unable to index file|invalid path)/gim)?.length ?? 0;
  return [`${failed === 1 ? "1 file" : `${failed || "some"} files`} could not be read, and not recorded`];
}

async function recordTracked(options: SnapshotOptions, inWorkspace: GitOptions): Promise<void> {
  if (options.tracked === undefined || options.tracked.length === 0) return;
  const checked = await tryGit(["check-ignore", "-z", "--stdin"], {
    ...inWorkspace,
    input: encodeList(options.tracked),
  });
  if (checked.exitCode !== 0) return;
  const ignored = checked.stdout.split("\0").filter((file) => file !== "");
  const found = await Promise.all(
    ignored.map((file) => lstat(rawPath(options.path, file)).catch(() => null)),
  );
  const files = ignored.filter((_, at) => found[at]?.isFile() || found[at]?.isSymbolicLink());
  await git(updateIndex, { ...inWorkspace, input: encodeList(files) });
}

/** What is new or changed; a repository inside of the workspace as `folder/`. Null if there is no end to it. */
async function listChanges(inWorkspace: GitOptions): Promise<string[] | null> {
  try {
    return await gitList(["ls-files", "-z", "--modified", "--others", "--exclude-standard"], inWorkspace);
  } catch (error) {
    if (error instanceof GitError && error.kind === "output") return null;
    throw error;
  }
}

/**
 * Files of the repositories inside of the workspace, which git would record as a bare commit id. Once they are in the
 * index, git treats their folders like any other.
 */
async function nestedFiles(
  listed: string[],
  inWorkspace: GitOptions & { env: Record<string, string> },
): Promise<{ files: string[]; empty: string[] }> {
  const folders = listed.filter((entry) => entry.endsWith("/"));
  const files: string[] = [];
  const empty: string[] = [];
  for (let next = 0; next < folders.length; next++) {
    if (next >= maxNestedRepositories) throw new GitError("output", `more than ${next} repositories inside`);
    const folder = folders[next] ?? "";
    const top = path.join(
      inWorkspace.env.GIT_WORK_TREE ?? "",
      Buffer.from(folder, "latin1").toString("utf8"),
    );
    const env = {
      ...inWorkspace.env,
      GIT_WORK_TREE: top,
      GIT_INDEX_FILE: `${inWorkspace.env.GIT_INDEX_FILE}.none`,
    };
    const args = ["ls-files", "-z", "--others", "--exclude-standard"];
    const found = (await gitList(args, { ...inWorkspace, env, cwd: top })).map((entry) => folder + entry);
    if (found.every((entry) => entry.endsWith("/"))) empty.push(folder);
    for (const entry of found) (entry.endsWith("/") ? folders : files).push(entry);
  }
  return { files, empty };
}

async function overLimit(options: SnapshotOptions, files: string[]): Promise<string | null> {
  const maxFiles = options.maxFiles ?? maxSnapshotFiles;
  const maxBytes = options.maxBytes ?? maxSnapshotBytes;
  if (files.length > maxFiles) return `${files.length} new or changed files, more than ${maxFiles}`;
  let bytes = 0;
  for (let start = 0; start < files.length; start += statBatch) {
    const sizes = files.slice(start, start + statBatch).map(async (file) => {
      const found = await lstat(rawPath(options.path, file)).catch(() => null);
      return found?.isFile() ? found.size : 0;
    });
    for (const size of await Promise.all(sizes)) bytes += size;
    if (bytes > maxBytes) return `more than ${maxBytes} bytes of new or changed files`;
  }
  return null;
}
