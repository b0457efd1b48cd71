import { realpath, stat } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { messageOf, WorkspaceError } from "../errors.ts";
import { withoutCredentials } from "../redact.ts";
import { GitError, git, gitList } from "./git.ts";

/** Where a repository comes from. */
export interface Source {
  /** What git fetches from: a real path or a URL. */
  from: string;
  /** What the clone's `origin` says: as the caller wrote it, without credentials. */
  origin: string;
  /** The repository's folder if it is on this machine. */
  localPath: string | null;
}

const dirtyTimeoutMs = 30_000;

/** Looks at a path or URL. Throws WorkspaceError where a local one is no repository. */
export async function resolveSource(repo: string, signal?: AbortSignal): Promise<Source> {
  if (!isLocal(repo)) return { from: repo, origin: withoutCredentials(repo), localPath: null };
  const written = repo.startsWith("file://") ? filePath(repo) : path.resolve(repo);
  const localPath = await realpath(written).catch(() => null);
  if (localPath === null) throw new WorkspaceError(`no such repository: ${written} does not exist`);
  if (!(await stat(localPath)).isDirectory()) {
    throw new WorkspaceError(`${written} is not a git repository: it is a file`);
  }
  await checkRepository(localPath, written, signal);
  return { from: localPath, origin: repo.startsWith("file://") ? repo : written, localPath };
}

/** What a local checkout holds that its commits do not, in one sentence; null if nothing. */
export async function dirtyNote(source: Source, signal?: AbortSignal): Promise<string | null> {
  if (source.localPath === null) return null;
  const entries = await gitList(["status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all"], {
    cwd: source.localPath,
    config: "user",
    timeoutMs: dirtyTimeoutMs,
    signal,
  }).catch((error: unknown) => {
    // A bare repository has no checkout, and one that is too large to look at is no reason to fail.
    if (error instanceof GitError) return [];
    throw error;
  });
  if (entries.length === 0) return null;
  const untracked = entries.filter((entry) => entry.startsWith("??")).length;
  const parts = [count(entries.length - untracked, "modified"), count(untracked, "untracked")].filter(
    Boolean,
  );
  const one = entries.length === 1;
  return `${parts.join(" and ")} ${one ? "file" : "files"} of the checkout ${one ? "is" : "are"} not in the clone`;
}

/** The error a failed fetch or clone ends the run with. */
export function sourceError(source: Source, error: unknown): unknown {
  if (!(error instanceof GitError)) return error;
  if (needsCredentials.test(error.message)) {
    return new WorkspaceError(
      `${source.origin} needs credentials that git does not have here: ${error.message}`,
    );
  }
  return new WorkspaceError(`cannot clone ${source.origin}: ${error.message}`);
}

const needsCredentials =
  /could not read (Username|Password)|terminal prompts disabled|Authentication failed|Permission denied \(|Host key verification/;

/** A URL other than file:// or `host:path` is remote. */
function isLocal(repo: string): boolean {
  return repo.startsWith("file://") || !/^[^/.][^/]*:/.test(repo);
}

function filePath(url: string): string {
  try {
    return fileURLToPath(url);
  } catch (error) {
    throw new WorkspaceError(`expected a file URL such as file:///srv/repo, got ${url}: ${messageOf(error)}`);
  }
}

async function checkRepository(localPath: string, written: string, signal?: AbortSignal): Promise<void> {
  await git(["rev-parse", "--git-dir"], {
    cwd: localPath,
    env: { GIT_CEILING_DIRECTORIES: path.dirname(localPath) },
    config: "user",
    signal,
  }).catch((error: unknown) => {
    if (!(error instanceof GitError) || error.kind === "missing") throw sourceOrSame(written, error);
    const detail = error.message.includes("not a git repository") ? "" : `: ${error.message}`;
    throw new WorkspaceError(`${written} is not a git repository${detail}`);
  });
}

function sourceOrSame(written: string, error: unknown): unknown {
  return sourceError({ from: written, origin: written, localPath: written }, error);
}

function count(number: number, what: string): string {
  return number === 0 ? "" : `${number} ${what}`;
}
