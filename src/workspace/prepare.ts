import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readdir, realpath, rename, rm, stat } from "node:fs/promises";
import path from "node:path";
import { WorkspaceError } from "../errors.ts";
import { failpoint } from "../failpoint.ts";
import type { RunPaths } from "../paths.ts";
import { cloneMirror, fillClone } from "./clone.ts";
import { GitError, tryGit } from "./git.ts";
import { keepAside } from "./keep-aside.ts";
import { withLock } from "./lock.ts";
import { withMirror } from "./mirror.ts";
import { forkWorkspace, rebuildWorkspace } from "./rebuild.ts";
import { readRecord, type WorkspaceNews, type WorkspaceRecord, writeRecord } from "./record.ts";
import { removeAtOnce } from "./remove.ts";
import { emptyFolders, snapshot } from "./snapshot.ts";
import { hasTree, openStore } from "./snapshot-store.ts";
import { dirtyNote, resolveSource, sourceError } from "./source.ts";
import type { Workspace, WorkspaceRequest } from "./workspace.ts";

type Made = Omit<Workspace, "baseTree"> & { mirror: string | null; branch: string | null };

/**
 * Makes the folder a run works in, or returns the one that an earlier owner made; one that is gone is made anew from the
 * base and the last snapshot. Throws WorkspaceError, with one line, where the source or the folder cannot be used; an abort
 * rejects with the signal's reason.
 */
export async function prepareWorkspace(request: WorkspaceRequest, signal?: AbortSignal): Promise<Workspace> {
  const { run, notice } = request;
  // An owner that lost its lease may still be at it: two never make one workspace at once. One that was stopped meanwhile
  // finds, at each step that others would see, that the run is another's.
  const file = path.join(run.dir, "workspace.lock");
  const work = () => prepareAlone(request, signal);
  return withLock({ file, signal, notice, whenSilent: work }, work);
}

async function prepareAlone(request: WorkspaceRequest, signal: AbortSignal | undefined): Promise<Workspace> {
  const { run, confirmOwned, lastTree = null } = request;
  await confirmOwned?.();
  const earlier = await readRecord(run);
  const workspace = earlier === null ? await makeNew(request, signal) : await reuse(request, earlier, signal);
  const isReset = lastTree !== null && !(await hasTree(run, lastTree));
  return isReset ? { ...workspace, reset: resetText(workspace) } : workspace;
}

async function makeNew(request: WorkspaceRequest, signal: AbortSignal | undefined): Promise<Workspace> {
  const { run, origin, lastTree = null, baseCommit = null } = request;
  const kept = lastTree === null ? null : await keepAside(run);
  const record = origin
    ? await forkWorkspace({ ...request, origin, signal })
    : await makeFirst({ ...request, ref: baseCommit ?? request.ref }, signal);
  failpoint("workspace.made");
  await request.confirmOwned?.();
  const { notes } = record.workspace;
  const workspace = { ...record.workspace, notes: kept === null ? notes : [kept, ...notes] };
  await writeRecord(run, { ...record, workspace });
  return workspace;
}

function resetText({ kind, path: folder }: Workspace): string {
  const state =
    kind === "dir"
      ? "is as it is now"
      : "may lack all that was done in it: look what is there before you go on";
  return `This task goes on from a backup, or after damage, without the snapshots of its files. The workspace ${folder} ${state}. Steps after the backup may have been done already.`;
}

async function reuse(
  request: WorkspaceRequest,
  earlier: WorkspaceRecord,
  signal: AbortSignal | undefined,
): Promise<Workspace> {
  const { run } = request;
  const record = await followMove(request, earlier);
  const { workspace, news } = record;
  if (existsSync(workspace.path)) return news.length === 0 ? workspace : { ...workspace, news };
  // A folder of the user's may be on a disk that is not mounted: nothing of ours is put in its place.
  if (workspace.kind === "dir") {
    throw new WorkspaceError(
      `the folder ${workspace.path} is gone: bring it back, or get the files of a step with pawl restore RUN --step N --to DIR`,
    );
  }
  const { lastTree = null } = request;
  const isKnown = lastTree !== null && (await hasTree(request.run, lastTree));
  const tree = isKnown ? lastTree : workspace.baseTree;
  if (tree === null) {
    throw new WorkspaceError(`the workspace ${workspace.path} is gone, and there is no snapshot of it`);
  }
  const lost =
    workspace.kind === "clone" ? " Commits made in it are lost, its HEAD is the first commit." : "";
  const text = `The workspace ${workspace.path} was gone and has been made anew, as it was after the last recorded step, without the files that git ignores.${lost}`;
  const told = withNews(record, { kind: "workspace_rebuilt", text, afterSeq: request.lastSeq ?? 0 });
  // Before the folder is there: whoever finds it knows what to tell, however this process ends.
  await writeRecord(run, told);
  await rebuildWorkspace({ ...request, record, tree, signal });
  failpoint("workspace.rebuilt");
  return { ...workspace, news: told.news };
}

/** A data directory that was moved took the workspaces in it along; the record still says where they were. */
async function followMove(request: WorkspaceRequest, record: WorkspaceRecord): Promise<WorkspaceRecord> {
  const { run, lastSeq = 0 } = request;
  const { workspace } = record;
  const before = workspace.path;
  if (workspace.kind === "dir" || before === run.workspace) return record;
  if (existsSync(before) && (await isSameOrMissing(run.workspace, before))) return record;
  const text = `The working directory is ${run.workspace} now: use it instead of ${before}. Whole outputs of earlier commands are in ${run.outputs}`;
  const moved = withNews(
    { ...record, workspace: { ...workspace, path: run.workspace } },
    { kind: "workspace_moved", text, afterSeq: lastSeq },
  );
  await writeRecord(run, moved);
  return moved;
}

async function isSameOrMissing(folder: string, other: string): Promise<boolean> {
  if (!existsSync(folder)) return true;
  return (await realpath(folder)) === (await realpath(other));
}

function withNews(record: WorkspaceRecord, news: WorkspaceNews): WorkspaceRecord {
  return { ...record, news: [...record.news.filter(({ text }) => text !== news.text), news] };
}

async function makeFirst(
  request: WorkspaceRequest,
  signal: AbortSignal | undefined,
): Promise<WorkspaceRecord> {
  const { mirror, branch, ...made } = await make(request, signal);
  await request.confirmOwned?.();
  const base = await takeBase({ made, mirror, run: request.run, signal });
  const workspace = { ...made, baseTree: base.tree, notes: [...made.notes, ...base.notes] };
  return { workspace, mirror, branch, emptyFolders: base.emptyFolders, news: [] };
}

async function make(request: WorkspaceRequest, signal: AbortSignal | undefined): Promise<Made> {
  if (request.dir !== null) return useFolder(request.dir, signal);
  if (request.repo !== null) return makeClone({ ...request, repo: request.repo }, signal);
  const folder = request.run.workspace;
  await mkdir(folder, { recursive: true });
  return { kind: "empty", path: folder, baseCommit: null, notes: [], mirror: null, branch: null };
}

async function useFolder(dir: string, signal: AbortSignal | undefined): Promise<Made> {
  const found = await stat(dir).catch(() => null);
  if (found === null) throw new WorkspaceError(`no such folder: ${dir}`);
  if (!found.isDirectory()) throw new WorkspaceError(`expected a folder to work in, ${dir} is a file`);
  const baseCommit = await headOfFolder(dir, signal);
  return { kind: "dir", path: dir, baseCommit, notes: [], mirror: null, branch: null };
}

/** HEAD of the repository a folder is in; null without one, or without git. */
export async function headOfFolder(dir: string, signal: AbortSignal | undefined): Promise<string | null> {
  const args = ["rev-parse", "--quiet", "--verify", "HEAD"];
  const result = await tryGit(args, { config: "user", cwd: dir, signal }).catch((error: unknown) => {
    if (error instanceof GitError) return null;
    throw error;
  });
  return result?.exitCode === 0 ? result.stdout.trim() : null;
}

/** The clone grows under another name: a folder with the right name has all its files. */
async function makeClone(
  request: WorkspaceRequest & { repo: string },
  signal: AbortSignal | undefined,
): Promise<Made> {
  const { paths, run, ref, notice, confirmOwned } = request;
  const source = await resolveSource(request.repo, signal);
  await confirmOwned?.();
  await removeHalfMade(run);
  const making = `${run.workspace}.${randomUUID()}.tmp`;
  try {
    const checkout = await withMirror({ repos: paths.repos, source, ref, signal, notice }, async (found) => {
      await cloneMirror({ checkout: found, source, target: making, signal });
      return found;
    });
    const notes = await fillClone({ checkout, source, target: making, signal });
    const dirty = await dirtyNote(source, signal);
    await confirmOwned?.();
    await rename(making, run.workspace);
    return {
      kind: "clone",
      path: run.workspace,
      baseCommit: checkout.commit,
      notes: dirty === null ? notes : [dirty, ...notes],
      mirror: checkout.mirror,
      branch: checkout.branch,
    };
  } catch (error) {
    throw sourceError(source, error);
  } finally {
    await rm(making, { recursive: true, force: true });
  }
}

async function removeHalfMade(run: RunPaths): Promise<void> {
  const parent = path.dirname(run.workspace);
  const name = path.basename(run.workspace);
  await mkdir(parent, { recursive: true });
  await removeAtOnce(run.workspace);
  for (const each of await readdir(parent)) {
    if (!each.startsWith(`${name}.`) || !each.endsWith(".tmp")) continue;
    await rm(path.join(parent, each), { recursive: true, force: true });
  }
}

interface BaseOptions {
  made: Omit<Workspace, "baseTree">;
  mirror: string | null;
  run: RunPaths;
  signal: AbortSignal | undefined;
}

interface Base {
  tree: string | null;
  notes: string[];
  emptyFolders: string[];
}

/** The first snapshot. A folder that cannot be recorded can still be worked in: then it is a note. */
async function takeBase({ made, mirror, run, signal }: BaseOptions): Promise<Base> {
  const opened = await openStore({ run, mirror, workspace: made, signal });
  const taken = "skipped" in opened ? opened : await snapshot({ path: made.path, run, signal });
  if ("skipped" in taken) {
    const note = `no snapshot of the workspace, so changed files will not be known: ${taken.skipped}`;
    return { tree: null, notes: [note], emptyFolders: [] };
  }
  const folders = made.kind === "dir" ? await emptyFolders({ path: made.path, run, signal }) : [];
  return { tree: taken.tree, notes: taken.notes, emptyFolders: folders };
}
