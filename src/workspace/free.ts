import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { readdir, rename, rm } from "node:fs/promises";
import path from "node:path";
import type { RunPaths } from "../paths.ts";
import { decodePath, GitError, type GitOptions, git, gitList } from "./git.ts";
import { withLock } from "./lock.ts";
import { readPatch } from "./patch-file.ts";
import { readRecord, type WorkspaceRecord } from "./record.ts";
import { snapshot } from "./snapshot.ts";
import { storeOptions, storePath } from "./snapshot-store.ts";

interface FreeOptions {
  run: RunPaths;
  /** The run's last snapshot and the commit of its branch, by its outcome. */
  tree: string | null;
  headCommit: string | null;
  signal?: AbortSignal | undefined;
}

/** Where it was, and the repository that holds its snapshots and commits now; or why it stays. */
export type Freed = { path: string; repository: string } | { kept: string };

/** Branches, tags and stash of the clone, in the run's own repository. */
const cloneRefs = "+refs/*:refs/pawl/clone/*";

/**
 * Deletes the workspace of a run that has ended, where nothing is lost with it but what git ignores: the patch is there,
 * the folder is what the last snapshot says, and all commits of a clone are in the run's own repository. A folder of the
 * user's is never touched. May be repeated.
 */
export async function freeWorkspace(options: FreeOptions): Promise<Freed> {
  const { run, signal } = options;
  const record = await readRecord(run);
  if (record === null) return { kept: "it has no record" };
  const { kind, path: folder } = record.workspace;
  if (kind === "dir") return { kept: "it is a folder of the user's" };
  // A data directory that was copied has records of folders that are the original's.
  if (folder !== run.workspace) return { kept: `it is at another place: ${folder}` };
  const whenSilent = async () => ({ kept: "its lock is held by a process that is stopped" });
  const file = path.join(run.dir, "workspace.lock");
  return withLock<Freed>({ file, signal, whenSilent }, async () => {
    if (existsSync(folder)) {
      const lacking = await findLacking(options, record);
      if (lacking !== null) return { kept: lacking };
      // A folder with the right name is whole, also where this process dies midway.
      await rename(folder, `${folder}.${randomUUID()}.tmp`);
    }
    await removeRenamed(folder);
    return { path: folder, repository: storePath(run) };
  });
}

/** Also what a process that died midway has left. */
async function removeRenamed(folder: string): Promise<void> {
  const parent = path.dirname(folder);
  const isRenamed = (name: string) => name.startsWith(`${path.basename(folder)}.`) && name.endsWith(".tmp");
  for (const name of (await readdir(parent)).filter(isRenamed)) {
    await rm(path.join(parent, name), { recursive: true, force: true });
  }
}

/** What would be lost; null where nothing would. */
async function findLacking(
  { run, tree, headCommit, signal }: FreeOptions,
  { workspace }: WorkspaceRecord,
): Promise<string | null> {
  if (tree === null || (await readPatch(run)) === null) return "its change is not kept elsewhere";
  const isClone = workspace.kind === "clone";
  if (isClone && headCommit === null) return "its commits are not kept elsewhere";
  const store = { ...storeOptions(run), signal };
  try {
    if (isClone) await keepCommits(path.join(workspace.path, ".git"), store);
    await requireObjects({ wanted: [tree, headCommit], known: workspace.baseCommit, store });
  } catch (error) {
    if (error instanceof GitError) return `it is not kept elsewhere: ${error.message}`;
    throw error;
  }
  const now = await snapshot({ path: workspace.path, run, signal });
  if ("skipped" in now) return `it cannot be compared with its snapshot: ${now.skipped}`;
  if (now.notes.length > 0) return `not all of it is in its snapshot: ${now.notes.join("; ")}`;
  if (now.tree !== tree) return "it was changed after the run";
  const inner = await findInnerRepository(workspace, tree, store);
  return inner === null ? null : `a repository in it has commits of its own: ${inner}`;
}

/** A repository beside the clone's own: a snapshot has its files, not its history. */
async function findInnerRepository(
  { kind, path: folder }: WorkspaceRecord["workspace"],
  tree: string,
  store: GitOptions,
): Promise<string | null> {
  const entries = await gitList(["ls-tree", "-r", "-t", "-z", tree], store);
  const folders = entries
    .filter((entry) => !/^\d+ blob /.test(entry))
    .map((entry) => entry.split("\t")[1] ?? "");
  const inner = [...(kind === "clone" ? [] : [""]), ...folders].map((each) =>
    path.join(folder, decodePath(each)),
  );
  return inner.find((each) => existsSync(path.join(each, ".git"))) ?? null;
}

/** Fetched, as that is what git does safely in a repository that it has no reason to trust. */
async function keepCommits(repository: string, store: GitOptions): Promise<void> {
  const flags = ["--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"];
  await git(
    ["fetch", ...flags, "--update-shallow", "--", repository, "+HEAD:refs/pawl/agent", cloneRefs],
    store,
  );
}

/** Throws GitError where an object is missing. What the base commit has is the mirror's, and not looked at. */
async function requireObjects(options: {
  wanted: (string | null)[];
  known: string | null;
  store: GitOptions;
}): Promise<void> {
  const { wanted, known, store } = options;
  const names = [...new Set(wanted)].filter((name) => name !== null);
  const without = known === null ? [] : [`^${known}`];
  await git(["rev-list", "--objects", "--quiet", ...names, ...without], store);
}
