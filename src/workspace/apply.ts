import { randomUUID } from "node:crypto";
import { copyFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { ConfigError } from "../errors.ts";
import {
  decodePath,
  GitError,
  type GitOptions,
  type GitResult,
  git,
  gitList,
  removeIndex,
  tryGit,
} from "./git.ts";

/**
 * Brings a run's patch into a checkout, all of it or nothing. Where surrounding lines have changed since, it is merged if
 * that leaves no conflict. The checkout's index stays as it is. A change that is there already is left as it is. Throws
 * ConfigError that names the files in conflict.
 */
export async function applyToCheckout(options: {
  patch: Uint8Array;
  checkout: string;
  signal?: AbortSignal;
}): Promise<{ files: string[]; isThere: boolean }> {
  const { patch, checkout, signal } = options;
  const top = await topOf(checkout, signal);
  if (patch.length === 0) return { files: [], isThere: false };
  const inCheckout: GitOptions = { config: "user", cwd: top, input: patch, signal };
  const plain = await tryGit(applyArguments("--check"), inCheckout);
  const fits = plain.exitCode === 0;
  // What could be taken out as it came in is there.
  const isThere = !fits && (await tryGit(applyArguments("--reverse", "--check"), inCheckout)).exitCode === 0;
  if (fits) await git(applyArguments(), inCheckout);
  else if (!isThere) await merge({ top, plain, inCheckout });
  return { files: isThere ? [] : await patchedFiles(inCheckout), isThere };
}

async function topOf(checkout: string, signal: AbortSignal | undefined): Promise<string> {
  try {
    return decodePath(await git(["rev-parse", "--show-toplevel"], { config: "user", cwd: checkout, signal }));
  } catch (error) {
    if (!(error instanceof GitError)) throw error;
    throw new ConfigError(`expected the checkout of a git repository, got ${checkout}: ${error.message}`);
  }
}

/** The user's own settings for `git apply` may repair whitespace; here the change arrives as it was made. */
function applyArguments(...more: string[]): string[] {
  return ["-c", "apply.ignoreWhitespace=no", "apply", "--binary", "--whitespace=nowarn", ...more, "-"];
}

/** A three-way merge stages what it does, so it works on a copy of the index, and only after a rehearsal. */
async function merge(options: { top: string; plain: GitResult; inCheckout: GitOptions }): Promise<void> {
  const { top, plain, inCheckout } = options;
  const index = path.join(tmpdir(), `pawl-index-${randomUUID()}`);
  const found = await git(["rev-parse", "--git-path", "index"], { ...inCheckout, input: "" });
  try {
    await copyFile(path.resolve(top, decodePath(found)), index);
    const onCopy = { ...inCheckout, env: { GIT_INDEX_FILE: index } };
    await tryGit(["update-index", "-q", "--refresh"], { ...onCopy, input: "" });
    const rehearsal = await tryGit(applyArguments("--3way", "--check"), onCopy);
    if (rehearsal.exitCode !== 0 || / with conflicts/.test(rehearsal.stderr))
      throw conflict(top, plain, rehearsal);
    await git(applyArguments("--3way"), onCopy);
  } finally {
    await removeIndex(index);
  }
}

function conflict(top: string, ...results: GitResult[]): ConfigError {
  const lines = results.flatMap((result) => decodePath(result.stderr).split("\n"));
  const patterns = [
    /^error: patch failed: (.+):\d+$/,
    /^error: (.+): (?:patch does not apply|already exists in|No such file|does not exist in|does not match index|wrong type)/,
    /^error: affected file '(.+)' is beyond a symbolic link/,
    /^Applied patch to '(.+)' with conflicts/,
  ];
  const files = lines.flatMap((line) => patterns.map((pattern) => pattern.exec(line)?.[1])).filter(isText);
  const named =
    [...new Set(files)].sort().join(", ") || lines.find((line) => line.startsWith("error:")) || "";
  return new ConfigError(
    `the change does not fit ${top}, which was left as it is; in conflict: ${named}. ` +
      "Commit or move your own changes to these files, or merge the run's branch",
  );
}

function isText(value: string | undefined): value is string {
  return value !== undefined;
}

async function patchedFiles(inCheckout: GitOptions): Promise<string[]> {
  const entries = await gitList(applyArguments("--numstat", "-z"), inCheckout);
  return entries.map((entry) => decodePath(entry.split("\t").slice(2).join("\t"))).sort();
}
