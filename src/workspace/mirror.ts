import { createHash, randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { readdir, rename, rm } from "node:fs/promises";
import path from "node:path";
import { WorkspaceError } from "../errors.ts";
import { failpoint } from "../failpoint.ts";
import { isDiskFull } from "../full-disk.ts";
import { withoutCredentials } from "../redact.ts";
import { GitError, type GitOptions, git, tryGit } from "./git.ts";
import { type LockNotice, withLock } from "./lock.ts";
import { type Source, sourceError } from "./source.ts";

/** A commit of the source that the mirror holds, and the branch it is the tip of. */
export interface Checkout {
  mirror: string;
  commit: string;
  /** Null for a tag, a bare commit or a detached HEAD. */
  branch: string | null;
}

interface MirrorOptions {
  /** Folder of all mirrors. */
  repos: string;
  source: Source;
  /** Null is the source's HEAD. */
  ref: string | null;
  signal?: AbortSignal | undefined;
  notice?: LockNotice | undefined;
}

interface Head {
  commit: string;
  branch: string | null;
}

const fetchTimeoutMs = 10 * 60_000;
const headRef = "refs/pawl/head";
/** A source has one mirror, unless the holder of its lock does not go on: then the next one is made. */
const maxMirrors = 3;

/**
 * Brings a mirror of a source up to date and lends it to `use` while nobody else changes it. Throws WorkspaceError where
 * the source cannot be read or does not have the ref.
 */
export async function withMirror<T>(
  options: MirrorOptions,
  use: (checkout: Checkout) => Promise<T>,
  number = 1,
): Promise<T> {
  const { repos, source, ref, signal, notice } = options;
  const hash = createHash("sha256").update(withoutCredentials(source.from)).digest("hex").slice(0, 20);
  const mirror = path.join(repos, `${hash}${number === 1 ? "" : `-${number}`}.git`);
  const whenSilent = number < maxMirrors ? () => withMirror(options, use, number + 1) : undefined;
  return withLock({ file: lockOf(mirror), signal, notice, whenSilent }, async () => {
    let head: Head | null;
    try {
      head = await readHead(source, signal);
      if (!existsSync(mirror)) await createMirror({ mirror, source, head, signal });
      else await updateMirror({ mirror, source, head, signal });
    } catch (error) {
      throw sourceError(source, error);
    }
    const found =
      ref === null || ref === "HEAD"
        ? await resolveHead({ mirror, source, head, signal })
        : await resolveRef({ mirror, source, ref, signal });
    failpoint("mirror.updated");
    return use({ mirror, ...found });
  });
}

/** Lends a mirror that is there to `use`, as it is, while nobody else changes it. */
export async function holdMirror<T>(
  options: { mirror: string; whenSilent: () => Promise<T> } & Pick<MirrorOptions, "signal" | "notice">,
  use: () => Promise<T>,
): Promise<T> {
  return withLock({ ...options, file: lockOf(options.mirror) }, use);
}

function lockOf(mirror: string): string {
  return mirror.replace(/\.git$/, ".lock");
}

interface MirrorWork {
  mirror: string;
  source: Source;
  head: Head | null;
  signal: AbortSignal | undefined;
}

async function readHead(source: Source, signal: AbortSignal | undefined): Promise<Head | null> {
  const output = await git(["ls-remote", "--symref", "--", source.from, "HEAD"], {
    config: "user",
    timeoutMs: fetchTimeoutMs,
    signal,
  });
  const commit = /^([0-9a-f]{40,64})\tHEAD$/m.exec(output)?.[1];
  if (commit === undefined) return null;
  return { commit, branch: /^ref: refs\/heads\/(.+)\tHEAD$/m.exec(output)?.[1] ?? null };
}

/** Makes the mirror under another name first: a mirror with the right name is a whole one. */
async function createMirror(work: MirrorWork): Promise<void> {
  await removeLeftovers(work.mirror);
  const making = `${work.mirror}.${randomUUID()}.tmp`;
  const format = work.head?.commit.length === 64 ? "sha256" : "sha1";
  try {
    await git(["init", "--quiet", "--bare", "--template=", `--object-format=${format}`, making], {
      config: "none",
      signal: work.signal,
    });
    await fetchAll({ ...work, mirror: making });
    await rename(making, work.mirror);
  } finally {
    await rm(making, { recursive: true, force: true });
  }
}

async function removeLeftovers(mirror: string): Promise<void> {
  const folder = path.dirname(mirror);
  const names = (await readdir(folder)).filter(
    (name) => name.startsWith(`${path.basename(mirror)}.`) && name.endsWith(".tmp"),
  );
  for (const name of names) await rm(path.join(folder, name), { recursive: true, force: true });
}

/** Runs of other times read the mirror's objects, so it is repaired, never replaced. */
async function updateMirror(work: MirrorWork): Promise<void> {
  try {
    await fetchAll(work);
  } catch (error) {
    if (!(error instanceof GitError) || !/\.lock/.test(error.message)) throw error;
    // We hold the mirror, so a lock file in it was left by a git that was killed.
    await removeLockFiles(work.mirror);
    await fetchAll(work);
  }
}

async function removeLockFiles(mirror: string): Promise<void> {
  for (const folder of [mirror, path.join(mirror, "refs")]) {
    const names = await readdir(folder, { recursive: folder !== mirror });
    for (const name of names.filter((each) => each.endsWith(".lock"))) {
      await rm(path.join(folder, name), { force: true });
    }
  }
}

/** Branches, tags and HEAD only: nothing else of the source (stashes, notes, pull requests) reaches a run. */
async function fetchAll({ mirror, source, head, signal }: MirrorWork): Promise<void> {
  const refspecs = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];
  if (head !== null) refspecs.push(`+HEAD:${headRef}`);
  await fetchInto({ mirror, source, refspecs, prune: true, signal });
  if (head?.branch) {
    await git(["symbolic-ref", "HEAD", `refs/heads/${head.branch}`], inMirror(mirror, signal));
  }
}

interface Fetch {
  mirror: string;
  source: Source;
  refspecs: string[];
  prune: boolean;
  signal: AbortSignal | undefined;
}

async function fetchInto({ mirror, source, refspecs, prune, signal }: Fetch): Promise<void> {
  const flags = [
    "--quiet",
    "--no-tags",
    "--update-shallow",
    "--no-write-fetch-head",
    "--no-recurse-submodules",
  ];
  await git(["fetch", ...flags, ...(prune ? ["--prune"] : []), "--", source.from, ...refspecs], {
    config: "user",
    env: { GIT_DIR: mirror },
    timeoutMs: fetchTimeoutMs,
    signal,
  });
}

async function resolveHead({ mirror, source, head, signal }: MirrorWork): Promise<Head> {
  if (head === null) {
    const any = await git(["for-each-ref", "--count=1"], inMirror(mirror, signal));
    throw new WorkspaceError(
      any === ""
        ? `${source.origin} has no commits`
        : `HEAD of ${source.origin} is a branch without commits: name a ref`,
    );
  }
  const commit = await commitOf(mirror, headRef, signal);
  if (commit === null) throw new WorkspaceError(`HEAD of ${source.origin} is not a commit`);
  return { commit, branch: head.branch };
}

interface RefWork {
  mirror: string;
  source: Source;
  ref: string;
  signal: AbortSignal | undefined;
}

async function resolveRef({ mirror, source, ref, signal }: RefWork): Promise<Head> {
  const name = ref.replace(/^refs\/heads\//, "");
  const tip = await commitOf(mirror, `refs/heads/${name}`, signal);
  if (tip !== null) return { commit: tip, branch: name };
  const commit =
    (await commitOf(mirror, `refs/tags/${ref}`, signal)) ??
    (await commitOf(mirror, ref, signal)) ??
    (await fetchUnlisted({ mirror, source, ref, signal }));
  if (commit === null) {
    throw new WorkspaceError(`${source.origin} has no branch, tag or commit ${JSON.stringify(ref)}`);
  }
  return { commit, branch: null };
}

/** A full commit id or ref name that no branch or tag leads to; many servers hand it out when asked. */
async function fetchUnlisted({ mirror, source, ref, signal }: RefWork): Promise<string | null> {
  if (!/^([0-9a-f]{40}|[0-9a-f]{64}|refs\/[\w./-]+)$/.test(ref)) return null;
  const kept = `refs/pawl/asked/${createHash("sha256").update(ref).digest("hex").slice(0, 20)}`;
  try {
    await fetchInto({ mirror, source, refspecs: [`+${ref}:${kept}`], prune: false, signal });
  } catch (error) {
    if (error instanceof GitError && error.kind === "exit" && !isDiskFull(error)) return null;
    throw sourceError(source, error);
  }
  return commitOf(mirror, kept, signal);
}

async function commitOf(
  mirror: string,
  name: string,
  signal: AbortSignal | undefined,
): Promise<string | null> {
  const args = ["rev-parse", "--quiet", "--verify", "--end-of-options", `${name}^{commit}`];
  const result = await tryGit(args, inMirror(mirror, signal));
  return result.exitCode === 0 ? result.stdout.trim() : null;
}

function inMirror(mirror: string, signal: AbortSignal | undefined): GitOptions {
  return { config: "none", env: { GIT_DIR: mirror }, signal };
}
