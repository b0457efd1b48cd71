import { randomUUID } from "node:crypto";
import { copyFile, mkdir, readdir, rename } from "node:fs/promises";
import { WorkspaceError } from "../errors.ts";
import type { RunPaths } from "../paths.ts";
import { encodeList, GitError, type GitOptions, git, gitList, removeIndex, tryGit } from "./git.ts";
import { unsettleTimes } from "./index-times.ts";
import { findObstacle } from "./obstacles.ts";
import { snapshot } from "./snapshot.ts";
import { storeOptions } from "./snapshot-store.ts";

interface RestoreOptions {
  run: RunPaths;
  /** A snapshot of the run. */
  tree: string;
  /** The folder to put into that state; made if it is missing. */
  target: string;
  /** Whether the folder is the run's workspace, or becomes it: later snapshots then go on from here. */
  isWorkspace: boolean;
  signal?: AbortSignal | undefined;
}

const restoreTimeoutMs = 10 * 60_000;

/**
 * Puts a folder into the state of a snapshot, byte for byte: contents, executable bits, symbolic links. Files that the
 * snapshot lacks are deleted; ignored files and `.git` folders stay, and nothing outside of the folder is touched. A
 * folder with files must be the run's workspace: it is snapshotted first, and `saved` is that tree. Throws WorkspaceError,
 * and then has changed nothing, where the folder cannot be recorded or an ignored file is in the way.
 */
export async function restoreTree(options: RestoreOptions): Promise<{ saved: string | null }> {
  const { run, target, isWorkspace, signal } = options;
  await mkdir(target, { recursive: true });
  const isEmpty = (await readdir(target)).length === 0;
  if (!isEmpty && !isWorkspace) throw new WorkspaceError(`expected a new or empty folder, got ${target}`);
  const saved = isEmpty ? null : await save({ path: target, run, signal });
  const index = `${run.index}.${randomUUID()}`;
  try {
    if (saved !== null) await copyFile(run.index, index);
    await checkOut({ ...options, index, from: saved });
    if (isWorkspace) await rename(index, run.index);
    if (isWorkspace) await unsettleTimes(run);
    return { saved };
  } catch (error) {
    if (!(error instanceof GitError)) throw error;
    throw new WorkspaceError(`${target} could not be put into the state of the snapshot: ${error.message}`);
  } finally {
    await removeIndex(index);
  }
}

/** What one step did to the workspace: its snapshots before and after. */
export interface StepTrees {
  from: string;
  to: string;
}

/**
 * A snapshot that is `tree`, but with every path that these steps changed as it is in `source`. So what a run did is taken
 * back or done again, and what others did is kept.
 */
export async function revertTree(options: {
  run: RunPaths;
  tree: string;
  source: string;
  steps: StepTrees[];
}): Promise<string> {
  const { run, tree, source, steps } = options;
  const index = `${run.index}.${randomUUID()}`;
  const store = storeOptions(run, index);
  try {
    const paths = new Set<string>();
    for (const { from, to } of steps) {
      const changed = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", from, to];
      for (const each of await gitList(changed, store)) paths.add(each);
    }
    const entries = await gitList(["ls-tree", "-r", "-z", source], store);
    const wanted = entries.filter((entry) => paths.has(entry.slice(entry.indexOf("\t") + 1)));
    const removals = [...paths].map((each) => `0 ${"0".repeat(tree.length)}\t${each}`);
    await git(["read-tree", tree], store);
    // All out first: a file may stand where a folder was.
    for (const lines of [removals, wanted]) {
      await git(["update-index", "--replace", "-z", "--index-info"], { ...store, input: encodeList(lines) });
    }
    return await git(["write-tree"], store);
  } finally {
    await removeIndex(index);
  }
}

async function save(options: {
  path: string;
  run: RunPaths;
  signal: AbortSignal | undefined;
}): Promise<string> {
  const taken = await snapshot(options);
  if ("tree" in taken) return taken.tree;
  throw new WorkspaceError(
    `${options.path} is left as it is, because no snapshot of it can be taken first: ${taken.skipped}`,
  );
}

/**
 * Git's own two-way merge does it: it checks everything before it changes anything, and never writes or deletes through a
 * symbolic link. What is ignored it would overwrite.
 */
async function checkOut(options: RestoreOptions & { index: string; from: string | null }): Promise<void> {
  const { run, target, tree, index, from, signal } = options;
  const store = storeOptions(run, index);
  const inTarget: GitOptions = {
    ...store,
    env: { ...store.env, GIT_WORK_TREE: target },
    cwd: target,
    timeoutMs: restoreTimeoutMs,
    signal,
  };
  if (from !== null) {
    // It only believes file times that it has seen itself.
    await tryGit(["update-index", "-q", "--refresh"], inTarget);
    const obstacle = await findObstacle({ folder: target, from, to: tree, inFolder: inTarget });
    if (obstacle !== null) {
      throw new WorkspaceError(`${target} is left as it is: ${obstacle}, which git ignores, is in the way`);
    }
  }
  await git(["read-tree", "-m", "-u", ...(from === null ? [] : [from]), tree], inTarget);
}
