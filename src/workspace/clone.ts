import { existsSync } from "node:fs";
import path from "node:path";
import { isDiskFull } from "../full-disk.ts";
import { GitError, type GitOptions, git, tryGit } from "./git.ts";
import type { Checkout } from "./mirror.ts";
import type { Source } from "./source.ts";

interface CloneOptions {
  checkout: Checkout;
  source: Source;
  /** The folder to make; must not exist. */
  target: string;
  signal?: AbortSignal | undefined;
}

const checkoutTimeoutMs = 10 * 60_000;
const submoduleTimeoutMs = 5 * 60_000;
const identity = { "user.name": "pawl", "user.email": "pawl@localhost" };

/**
 * Clones the mirror with hard links, without files yet. Call it while the mirror is held: git lists its objects one by
 * one, and a fetch at the same moment would pull them away.
 */
export async function cloneMirror({ checkout, source, target, signal }: CloneOptions): Promise<void> {
  const flags = [
    "--quiet",
    "--local",
    "--no-checkout",
    "--origin",
    "origin",
    "--template=",
    "--no-reject-shallow",
  ];
  const timeoutMs = checkoutTimeoutMs;
  await git(["clone", ...flags, "--", checkout.mirror, target], { config: "none", timeoutMs, signal });
  const inClone = options(target, signal);
  if (checkout.branch === null) {
    // A commit outside of all branches is only certain to have come along where objects were linked.
    await git(["fetch", "--quiet", "--no-tags", "--", checkout.mirror, checkout.commit], inClone);
  }
  await git(["remote", "set-url", "origin", source.origin], inClone);
}

/** Fills the clone with files, submodules and an identity. Returns what a person should know. */
export async function fillClone({ checkout, source, target, signal }: CloneOptions): Promise<string[]> {
  const { branch, commit } = checkout;
  const where = branch === null ? ["--detach", commit] : ["-B", branch, "--track", `origin/${branch}`];
  await git(["checkout", "--quiet", ...where, "--"], {
    ...options(target, signal),
    // Large files stay pointers: their contents are not in the mirror, and fetching them could wait for a password.
    env: { ...options(target, signal).env, GIT_LFS_SKIP_SMUDGE: "1" },
    timeoutMs: checkoutTimeoutMs,
  });
  await configureIdentity(target, signal);
  return fillSubmodules({ source, target, signal });
}

/** The agent commits as the user where git knows who that is, else as pawl. */
async function configureIdentity(target: string, signal: AbortSignal | undefined): Promise<void> {
  const found = await Promise.all(
    Object.keys(identity).map((name) => tryGit(["config", "--get", name], options(target, signal))),
  );
  if (found.every((result) => result.exitCode === 0 && result.stdout.trim() !== "")) return;
  for (const [name, value] of Object.entries(identity)) {
    await git(["config", name, value], options(target, signal));
  }
}

async function fillSubmodules({ source, target, signal }: Omit<CloneOptions, "checkout">): Promise<string[]> {
  if (!existsSync(path.join(target, ".gitmodules"))) return [];
  // A repository of this machine may name submodules of this machine; one from elsewhere may not reach into it.
  const allow = source.localPath === null ? [] : ["-c", "protocol.file.allow=always"];
  try {
    await git([...allow, "submodule", "--quiet", "update", "--init", "--recursive"], {
      ...options(target, signal),
      timeoutMs: submoduleTimeoutMs,
    });
    return [];
  } catch (error) {
    if (!(error instanceof GitError) || isDiskFull(error)) throw error;
    return [`submodules could not be filled: ${error.message}`];
  }
}

function options(
  target: string,
  signal: AbortSignal | undefined,
): GitOptions & { env: Record<string, string> } {
  return { config: "user", cwd: target, env: { GIT_CEILING_DIRECTORIES: path.dirname(target) }, signal };
}
