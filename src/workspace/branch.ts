import { randomUUID } from "node:crypto";
import { LeaseLostError, messageOf } from "../errors.ts";
import { isDiskFull } from "../full-disk.ts";
import type { RunPaths } from "../paths.ts";
import { installBranch } from "./branch-install.ts";
import { branchCandidates, chooseBranch } from "./branch-name.ts";
import { decodePath, encodeList, type GitOptions, git, gitList, removeIndex } from "./git.ts";
import { gitlinks, storeOptions } from "./snapshot-store.ts";
import type { Workspace } from "./workspace.ts";

interface BranchOptions {
  run: RunPaths;
  workspace: Workspace;
  mirror: string;
  runId: string;
  key: string | null;
  title: string;
  /** The commit to build on: the agent's HEAD. */
  parent: string;
  /** The last snapshot. */
  tree: string;
  /** Paths that may differ from the parent, as git printed them. */
  touched: string[];
  signal?: AbortSignal | undefined;
  confirmOwned?: (() => Promise<void>) | undefined;
}

const author = { name: "pawl", email: "pawl@localhost" };
const maxSubjectChars = 72;

/**
 * Puts the final state on a branch, in the run's own repository and in the clone, without touching the clone's index,
 * files, HEAD or configuration. Where the agent committed everything itself the branch is its last commit. Commit and branch
 * are null, with a note, where the clone cannot take them.
 */
export async function publishBranch(
  options: BranchOptions,
): Promise<{ commit: string | null; branch: string | null; notes: string[] }> {
  const { run, workspace, runId, key, title, parent, signal, confirmOwned } = options;
  const store = { ...storeOptions(run), signal };
  const links = await gitlinks(parent, store);
  const outside = options.touched.filter((file) => !links.some((link) => isWithin(file, link)));
  const inside = links.filter((link) =>
    options.touched.some((file) => file !== link && isWithin(file, link)),
  );
  const tree = await commitTree(options, outside);
  const commit = tree === (await treeOf(parent, store)) ? parent : await commitOn(options, tree);
  const notes = inside.map(
    (link) => `changes inside the submodule ${decodePath(link)} are in the patch, not on the branch`,
  );
  const branch = await chooseBranch({
    candidates: branchCandidates({ runId, key, title }),
    clone: workspace.path,
    store,
  });
  if (branch === null)
    return { commit: null, branch, notes: [...notes, "no branch: its names are taken in the clone"] };
  await confirmOwned?.();
  await git(["update-ref", `refs/heads/${branch}`, commit], store);
  try {
    await installBranch({ run, clone: workspace.path, branch, commit, parent, signal, confirmOwned });
    return { commit, branch, notes };
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof LeaseLostError || isDiskFull(error)) throw error;
    return { commit: null, branch: null, notes: [...notes, `no branch in the clone: ${messageOf(error)}`] };
  }
}

function isWithin(file: string, folder: string): boolean {
  return file === folder || file.startsWith(`${folder}/`);
}

/**
 * The tree to commit: the parent's with the touched files as they are now, line endings converted as `.gitattributes`
 * says. Snapshots convert nothing, and committing one would change every line of such a file. The mirror serves as git
 * directory because it has no attributes of its own; all that is written goes to the run.
 */
async function commitTree(options: BranchOptions, touched: string[]): Promise<string> {
  const { run, workspace, mirror, parent, signal } = options;
  const index = `${run.index}.${randomUUID()}`;
  const store = { ...storeOptions(run, index), signal };
  const inClone: GitOptions = {
    ...store,
    env: { ...store.env, GIT_DIR: mirror, GIT_WORK_TREE: workspace.path },
    cwd: workspace.path,
  };
  try {
    const present = new Set(await gitList(["ls-tree", "-r", "-z", "--name-only", options.tree], store));
    const removed = touched.filter((file) => !present.has(file));
    const kept = touched.filter((file) => present.has(file));
    await git(["read-tree", parent], store);
    const none = "0".repeat(parent.length);
    const removals = encodeList(removed.map((file) => `0 ${none}\t${file}`));
    await git(["update-index", "-z", "--index-info"], { ...store, input: removals });
    await git(["update-index", "--add", "--replace", "-z", "--stdin"], {
      ...inClone,
      input: encodeList(kept),
    });
    return await git(["write-tree"], store);
  } finally {
    await removeIndex(index);
  }
}

async function treeOf(commit: string, store: GitOptions): Promise<string> {
  return git(["rev-parse", "--verify", `${commit}^{tree}`], store);
}

async function commitOn(options: BranchOptions, tree: string): Promise<string> {
  const { run, parent, runId, title, signal } = options;
  const subject = (title.split("\n")[0] ?? "").trim().slice(0, maxSubjectChars) || `Run ${runId}`;
  const store = storeOptions(run);
  const env = {
    ...store.env,
    GIT_AUTHOR_NAME: author.name,
    GIT_AUTHOR_EMAIL: author.email,
    GIT_COMMITTER_NAME: author.name,
    GIT_COMMITTER_EMAIL: author.email,
  };
  return git(["commit-tree", tree, "-p", parent], {
    ...store,
    env,
    input: `${subject}\n\nRun: ${runId}\n`,
    signal,
  });
}
