import { existsSync } from "node:fs";
import { LeaseLostError, messageOf } from "../errors.ts";
import { failpoint } from "../failpoint.ts";
import { isDiskFull } from "../full-disk.ts";
import type { RunPaths } from "../paths.ts";
import { publishBranch } from "./branch.ts";
import { readHead } from "./clone-head.ts";
import { decodePath, type GitOptions, gitList } from "./git.ts";
import { writePatch } from "./patch.ts";
import { headOfFolder } from "./prepare.ts";
import { readRecord, type WorkspaceRecord } from "./record.ts";
import { emptyFolders, snapshot } from "./snapshot.ts";
import { storeOptions } from "./snapshot-store.ts";
import type { Products, Workspace } from "./workspace.ts";

interface FinishOptions {
  run: RunPaths;
  workspace: Workspace;
  runId: string;
  /** The task's key, which names the branch where it can. */
  key: string | null;
  /** First line of the task: the commit's subject. */
  title: string;
  signal?: AbortSignal | undefined;
  /** Throws LeaseLostError if the run belongs to another owner, whose products must not be overwritten. */
  confirmOwned?(): Promise<void>;
}

const maxNamedFolders = 20;

/**
 * Gathers what a run leaves behind: the last snapshot, the changed files, the patch and, for a clone with a change, the
 * branch. Made for every outcome and every state an agent may leave a folder in: what cannot be known is null, and a note
 * says why. Rejects only for an abort, with the signal's reason, for a lost lease and for a full disk. May be repeated.
 */
export async function finishWorkspace(options: FinishOptions): Promise<Products> {
  const { workspace, signal } = options;
  const products: Products = { tree: null, headCommit: null, branch: null, changedFiles: null, notes: [] };
  try {
    await gather(options, products);
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof LeaseLostError || isDiskFull(error)) throw error;
    products.notes.push(`the workspace could not be read to its end: ${messageOf(error)}`);
  }
  if (workspace.kind === "dir") products.headCommit = await headOfFolder(workspace.path, signal);
  return products;
}

/** Fills `products` stage by stage, so that a later stage that fails takes nothing of the earlier ones with it. */
async function gather(options: FinishOptions, products: Products): Promise<void> {
  const { workspace, run, signal } = options;
  const at = { path: workspace.path, run, signal };
  if (!existsSync(workspace.path)) {
    products.notes.push(`the workspace ${workspace.path} is gone`);
    return;
  }
  if (workspace.baseTree === null) return;
  const record = await readRecord(run);
  const head = workspace.kind === "clone" ? await readHead(at) : null;
  if (head?.note) products.notes.push(head.note);
  const store = { ...storeOptions(run), signal };
  const committed =
    head?.commit && workspace.baseCommit ? await changedPaths(workspace.baseCommit, head.commit, store) : [];
  const taken = await snapshot({ ...at, tracked: committed });
  if ("skipped" in taken) {
    products.notes.push(`no snapshot of the workspace, so the changed files are not known: ${taken.skipped}`);
    return;
  }
  products.tree = taken.tree;
  products.notes.push(...taken.notes);
  const changed = await changedPaths(workspace.baseTree, taken.tree, store);
  products.changedFiles = changed.map(decodePath).sort();
  await noteEmptyFolders({ at, record, products });
  failpoint("finish.gathered");
  const { confirmOwned } = options;
  await writePatch({ run, from: workspace.baseTree, to: taken.tree, signal, confirmOwned });
  failpoint("finish.patched");
  if (workspace.kind !== "clone" || workspace.baseCommit === null) return;
  if (changed.length === 0) {
    products.headCommit = workspace.baseCommit;
    return;
  }
  if (!head?.hasRepository || !record?.mirror) return;
  const published = await publishBranch({
    ...options,
    mirror: record.mirror,
    parent: head.commit ?? workspace.baseCommit,
    tree: taken.tree,
    touched: [...new Set([...changed, ...committed])],
  });
  products.headCommit = published.commit;
  products.branch = published.branch;
  products.notes.push(...published.notes);
}

/** Paths that differ between two trees or commits, as git prints them. */
async function changedPaths(from: string, to: string, store: GitOptions): Promise<string[]> {
  return gitList(["diff-tree", "-r", "-z", "--name-only", "--no-renames", from, to], store);
}

async function noteEmptyFolders(options: {
  at: { path: string; run: RunPaths; signal: AbortSignal | undefined };
  record: WorkspaceRecord | null;
  products: Products;
}): Promise<void> {
  const before = new Set(options.record?.emptyFolders);
  const folders = (await emptyFolders(options.at)).filter((folder) => !before.has(folder)).map(decodePath);
  if (folders.length === 0) return;
  const more = folders.length > maxNamedFolders ? ` and ${folders.length - maxNamedFolders} more` : "";
  const named = folders.slice(0, maxNamedFolders).join(", ");
  options.products.notes.push(`empty folders, which no patch or branch can hold: ${named}${more}`);
}
