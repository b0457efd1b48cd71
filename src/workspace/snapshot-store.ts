import { existsSync } from "node:fs";
import { appendFile, copyFile, mkdir, readFile, realpath, writeFile } from "node:fs/promises";
import path from "node:path";
import { isDiskFull } from "../full-disk.ts";
import { draftPrefix, type RunPaths } from "../paths.ts";
import { decodePath, encodeList, GitError, type GitOptions, git, gitList, rawPath, tryGit } from "./git.ts";
import { unsettleTimes } from "./index-times.ts";
import { removeAtOnce } from "./remove.ts";
import type { Workspace } from "./workspace.ts";

/**
 * A run keeps its snapshots in a bare repository of its own (`<run>/git`) whose objects go to `<run>/objects`, with the
 * mirror's objects to lean on. So nothing of a run reaches the mirror, and no git command of ours ever reads the
 * configuration of the workspace, where an agent could name programs to be run.
 */
export function storeOptions(run: RunPaths, index = run.index): GitOptions & { env: Record<string, string> } {
  return {
    config: "none",
    env: { GIT_DIR: storePath(run), GIT_INDEX_FILE: index, GIT_OBJECT_DIRECTORY: run.objects },
  };
}

/** Where the run's own repository is: it also holds the final branch. */
export function storePath(run: RunPaths): string {
  return path.join(run.dir, "git");
}

interface StoreOptions {
  run: RunPaths;
  /** Bare repository that holds the base commit; null for a folder in place or an empty one. */
  mirror: string | null;
  workspace: Pick<Workspace, "kind" | "path" | "baseCommit">;
  signal?: AbortSignal | undefined;
}

/** Makes the run's repository anew, ready for the first snapshot. Says why where that cannot be. */
export async function openStore(options: StoreOptions): Promise<{ ready: true } | { skipped: string }> {
  const { run, mirror, workspace, signal } = options;
  try {
    const format = workspace.baseCommit?.length === 64 ? "sha256" : "sha1";
    await createStore({ run, mirror, format, signal });
    if (mirror !== null && workspace.baseCommit !== null) {
      await seedFromCommit({ run, commit: workspace.baseCommit, path: workspace.path, signal });
    }
    if (workspace.kind === "dir") await seedFromFolder(run, workspace.path, signal);
    return { ready: true };
  } catch (error) {
    if (!(error instanceof GitError) || isDiskFull(error)) throw error;
    return { skipped: error.message };
  }
}

/**
 * Makes the run's repository as a copy of another run's, with these of its snapshots and its ignore rules; the base commit
 * comes from the mirror both lean on. Throws GitError where one of them is not there.
 */
export async function copyStore(options: {
  from: RunPaths;
  to: RunPaths;
  mirror: string | null;
  baseCommit: string | null;
  trees: string[];
  signal?: AbortSignal | undefined;
}): Promise<void> {
  const { from, to, mirror, baseCommit, trees, signal } = options;
  await createStore({ run: to, mirror, format: trees[0]?.length === 64 ? "sha256" : "sha1", signal });
  const exclude = path.join("info", "exclude");
  await copyFile(path.join(storePath(from), exclude), path.join(storePath(to), exclude));
  const store = storeOptions(to);
  const env = { ...store.env, GIT_ALTERNATE_OBJECT_DIRECTORIES: JSON.stringify(from.objects) };
  const known = mirror === null || baseCommit === null ? [] : [`^${baseCommit}^{tree}`];
  await mkdir(path.join(to.objects, "pack"), { recursive: true });
  await git(["pack-objects", "--quiet", "--revs", path.join(to.objects, "pack", "pack")], {
    ...store,
    env,
    input: `${[...new Set(trees), ...known].join("\n")}\n`,
    signal,
  });
}

/** Whether a snapshot is in the run's repository. */
export async function hasTree(run: RunPaths, tree: string): Promise<boolean> {
  return (await tryGit(["cat-file", "-e", `${tree}^{tree}`], storeOptions(run))).exitCode === 0;
}

/** Submodules and other repositories among a commit's files, as git printed them. */
export async function gitlinks(commit: string, options: GitOptions): Promise<string[]> {
  const entries = await gitList(["ls-tree", "-r", "-z", commit], options);
  return entries
    .filter((entry) => entry.startsWith("160000 "))
    .map((entry) => entry.slice(entry.indexOf("\t") + 1));
}

/** Whatever `.gitattributes` says, contents go in as they are. Settings here win over those of the workspace. */
const attributes = "* -text !eol !crlf !ident !filter !working-tree-encoding\n";

/**
 * File names may be any that this system can have. Objects are on disk before a snapshot's id is committed, as the log is:
 * one flush for all of them.
 */
const configuration =
  "[core]\n\tprotectNTFS = false\n\tprotectHFS = false\n\tfsync = committed,loose-object\n\tfsyncMethod = batch\n";

async function createStore(options: {
  run: RunPaths;
  mirror: string | null;
  format: "sha1" | "sha256";
  signal: AbortSignal | undefined;
}): Promise<void> {
  const { run, mirror, format, signal } = options;
  const store = storePath(run);
  for (const made of [store, run.objects, run.index]) await removeAtOnce(made);
  await unsettleTimes(run);
  await git(["init", "--quiet", "--bare", "--template=", `--object-format=${format}`, store], {
    config: "none",
    signal,
  });
  await mkdir(path.join(store, "info"), { recursive: true });
  await writeFile(path.join(store, "info", "attributes"), attributes);
  await writeFile(path.join(store, "info", "exclude"), `/.pawl/\n${draftPrefix}*\n`);
  await appendFile(path.join(store, "config"), configuration);
  await mkdir(path.join(run.objects, "info"), { recursive: true });
  // With both files the branch in this repository can also be read without any setting.
  await leanOn(path.join(store, "objects"), run.objects);
  if (mirror !== null) await leanOn(run.objects, path.join(mirror, "objects"));
}

/** Lets one folder of objects find those of another: by a relative path, so that both can be moved together. */
async function leanOn(objects: string, other: string): Promise<void> {
  const relative = path.relative(await realpath(objects), await realpath(other));
  await writeFile(path.join(objects, "info", "alternates"), `${relative}\n`);
}

/**
 * Files that a commit tracks are recorded even where `.gitignore` names them. Submodules are taken out: their files are
 * recorded one by one like all others.
 */
export async function seedFromCommit(options: {
  run: RunPaths;
  commit: string;
  path: string;
  signal: AbortSignal | undefined;
}): Promise<void> {
  const { run, commit, signal } = options;
  const store = { ...storeOptions(run), signal };
  await git(["update-ref", "refs/pawl/base", commit], store);
  await git(["read-tree", commit], store);
  const links = await gitlinks(commit, store);
  if (links.length > 0) {
    const input = encodeList(links.map((link) => `0 ${"0".repeat(commit.length)}\t${link}`));
    await git(["update-index", "-z", "--index-info"], { ...store, input });
  }
  // Fills in file times, so that no file is read twice. It fails where contents differ, which is no error here.
  const env = { ...store.env, GIT_WORK_TREE: options.path };
  await tryGit(["update-index", "-q", "--refresh"], { ...store, env, cwd: options.path });
}

/** A folder inside of a repository keeps the rules that it has there: what is ignored and what is tracked all the same. */
async function seedFromFolder(run: RunPaths, dir: string, signal: AbortSignal | undefined): Promise<void> {
  const user: GitOptions = { config: "user", cwd: dir, signal };
  const top = await tryGit(["rev-parse", "--show-toplevel", "--git-common-dir"], user);
  if (top.exitCode !== 0) return;
  const [root = dir, common = ".git"] = decodePath(top.stdout).split("\n");
  const exclude = path.join(storePath(run), "info", "exclude");
  const own = path.resolve(dir, common, "info", "exclude");
  await appendFile(exclude, await inheritedIgnores(root, dir, own));
  const tracked = await gitList(["ls-files", "-z", "--cached", "--ignored", "--exclude-standard"], user);
  const present = tracked.filter((file) => existsSync(rawPath(dir, file)));
  if (present.length === 0) return;
  const store = storeOptions(run);
  const env = { ...store.env, GIT_WORK_TREE: dir };
  await git(["update-index", "--add", "-z", "--stdin"], {
    ...store,
    env,
    cwd: dir,
    input: encodeList(present),
    signal,
  });
}

/** Ignore rules of the folders above `dir`, as they read from `dir`. */
async function inheritedIgnores(root: string, dir: string, ownExclude: string): Promise<string> {
  const relative = path.relative(root, dir);
  const above = relative === "" || relative.startsWith("..") ? [] : relative.split(path.sep);
  const files = [{ file: ownExclude, below: above }];
  for (let depth = 0; depth < above.length; depth++) {
    files.push({ file: path.join(root, ...above.slice(0, depth), ".gitignore"), below: above.slice(depth) });
  }
  const texts = await Promise.all(
    files.map(async ({ file, below }) => {
      const lines = (await readFile(file, "utf8").catch(() => "")).split(/\r?\n/);
      return lines.map((line) => ruleBelow(line, below.join("/"))).filter((line) => line !== null);
    }),
  );
  return texts
    .flat()
    .map((line) => `${line}\n`)
    .join("");
}

/** One rule moved from a folder to the folder `below` it; null where it cannot match there. */
function ruleBelow(line: string, below: string): string | null {
  if (line === "" || line.startsWith("#")) return null;
  const negated = line.startsWith("!");
  const rule = negated ? line.slice(1) : line;
  const isAnchored = rule.slice(0, -1).includes("/") && !rule.startsWith("**/");
  if (!isAnchored || below === "") return line;
  const rest = rule.replace(/^\//, "");
  return rest.startsWith(`${below}/`) ? `${negated ? "!" : ""}/${rest.slice(below.length + 1)}` : null;
}
