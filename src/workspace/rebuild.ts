import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import path from "node:path";
import { LeaseLostError, messageOf, WorkspaceError } from "../errors.ts";
import type { DataPaths, RunPaths } from "../paths.ts";
import { withoutCredentials } from "../redact.ts";
import { cloneMirror, fillClone } from "./clone.ts";
import { GitError, git } from "./git.ts";
import type { LockNotice } from "./lock.ts";
import { type Checkout, holdMirror, withMirror } from "./mirror.ts";
import { readRecord, type WorkspaceRecord } from "./record.ts";
import { restoreTree } from "./restore.ts";
import { copyStore, seedFromCommit } from "./snapshot-store.ts";
import { resolveSource, type Source } from "./source.ts";
import type { WorkspaceOrigin } from "./workspace.ts";

interface RebuildOptions {
  paths: DataPaths;
  run: RunPaths;
  repo: string | null;
  record: WorkspaceRecord;
  tree: string;
  signal?: AbortSignal | undefined;
  confirmOwned?: (() => Promise<void>) | undefined;
  notice?: LockNotice | undefined;
}

/**
 * Makes a run's folder from its base commit, out of the mirror, and one of its snapshots. It grows under another name: a
 * folder with the right name is whole. Throws WorkspaceError where that cannot be.
 */
export async function rebuildWorkspace(options: RebuildOptions): Promise<void> {
  const { run, record, tree, signal } = options;
  const { workspace } = record;
  const making = `${workspace.path}.${randomUUID()}.tmp`;
  try {
    await mkdir(path.dirname(workspace.path), { recursive: true });
    if (workspace.kind === "clone") await cloneBase({ ...options, making });
    await restoreTree({ run, tree, target: making, isWorkspace: true, signal });
    await options.confirmOwned?.();
    await rename(making, workspace.path);
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof LeaseLostError) throw error;
    throw new WorkspaceError(`the workspace ${workspace.path} could not be made anew: ${messageOf(error)}`);
  } finally {
    await rm(making, { recursive: true, force: true });
  }
}

/** Makes the workspace of a fork: the origin's base and snapshots, in a folder of its own. */
export async function forkWorkspace(options: {
  paths: DataPaths;
  run: RunPaths;
  repo: string | null;
  origin: WorkspaceOrigin;
  signal?: AbortSignal | undefined;
  confirmOwned?: (() => Promise<void>) | undefined;
  notice?: LockNotice | undefined;
}): Promise<WorkspaceRecord> {
  const { run, origin, signal } = options;
  const found = await readRecord(origin.run);
  const baseTree = found?.workspace.baseTree;
  const tree = origin.trees.at(-1);
  if (!found || !baseTree || tree === undefined) {
    throw new WorkspaceError(`the run to fork has no snapshots at ${origin.run.dir}: fork another one`);
  }
  const { mirror, branch } = found;
  const { kind, baseCommit } = found.workspace;
  const isClone = kind === "clone";
  const record: WorkspaceRecord = {
    workspace: {
      kind: isClone ? "clone" : "empty",
      path: run.workspace,
      baseCommit: isClone ? baseCommit : null,
      baseTree,
      notes: [],
    },
    mirror,
    branch,
    emptyFolders: [],
    news: [],
  };
  try {
    const trees = [baseTree, ...origin.trees];
    await copyStore({ from: origin.run, to: run, mirror, baseCommit, trees, signal });
  } catch (error) {
    if (!(error instanceof GitError)) throw error;
    throw new WorkspaceError(`the snapshots of the run to fork cannot be read: ${error.message}`);
  }
  await rebuildWorkspace({ ...options, record, tree });
  return record;
}

async function cloneBase(options: RebuildOptions & { making: string }): Promise<void> {
  const { paths, run, record, repo, making, signal, notice } = options;
  const { mirror, branch, workspace } = record;
  const commit = workspace.baseCommit;
  if (mirror === null || commit === null || repo === null) throw new Error("its base is not known");
  const source = await sourceOf(repo, mirror);
  // By its commit: the branch may have gone on, or away.
  const checkout: Checkout = { mirror, commit, branch: null };
  const cloneOf = (from: Checkout) => cloneMirror({ checkout: from, source, target: making, signal });
  const cloneAnew = () =>
    withMirror({ repos: paths.repos, source, ref: commit, signal, notice }, (found) =>
      cloneOf({ ...checkout, mirror: found.mirror }),
    );
  if (!existsSync(mirror)) await cloneAnew();
  else await holdMirror({ mirror, signal, notice, whenSilent: cloneAnew }, () => cloneOf(checkout));
  await fillClone({ checkout, source, target: making, signal });
  await seedFromCommit({ run, commit, path: making, signal });
  if (branch !== null) {
    const env = { GIT_CEILING_DIRECTORIES: path.dirname(making) };
    await git(["checkout", "--quiet", "-B", branch], { config: "user", cwd: making, env, signal });
  }
}

/** The source itself may be out of reach; the mirror is not. */
async function sourceOf(repo: string, mirror: string): Promise<Source> {
  return resolveSource(repo).catch(() => ({
    from: mirror,
    origin: withoutCredentials(repo),
    localPath: null,
  }));
}
