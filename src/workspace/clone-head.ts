import { lstat } from "node:fs/promises";
import path from "node:path";
import { isDiskFull } from "../full-disk.ts";
import type { RunPaths } from "../paths.ts";
import { GitError, git } from "./git.ts";
import { storeOptions } from "./snapshot-store.ts";

/** Where the agent left its clone. */
interface CloneHead {
  /** Null where HEAD has no commit or cannot be read. */
  commit: string | null;
  hasRepository: boolean;
  note: string | null;
}

const agentHead = "refs/pawl/agent";

/**
 * Reads HEAD of the clone, whatever the agent made of it, and copies its commits into the run's own repository. It is
 * fetched because serving a fetch is the one thing git does safely in a repository it has no reason to trust.
 */
export async function readHead(options: {
  path: string;
  run: RunPaths;
  signal: AbortSignal | undefined;
}): Promise<CloneHead> {
  const { run, signal } = options;
  const repository = path.join(options.path, ".git");
  const found = await lstat(repository).catch(() => null);
  if (!found?.isDirectory()) {
    const note = "the clone's .git folder is gone: the change is in the patch, not on a branch";
    return { commit: null, hasRepository: false, note };
  }
  const store = { ...storeOptions(run), signal };
  const flags = [
    "--quiet",
    "--no-tags",
    "--no-write-fetch-head",
    "--no-recurse-submodules",
    "--update-shallow",
  ];
  try {
    await git(["fetch", ...flags, "--", repository, `+HEAD:${agentHead}`], store);
    const commit = await git(["rev-parse", "--verify", `${agentHead}^{commit}`], store);
    return { commit, hasRepository: true, note: null };
  } catch (error) {
    if (!(error instanceof GitError) || isDiskFull(error)) throw error;
    const isUnborn = error.message.includes("couldn't find remote ref");
    const note = isUnborn
      ? "the clone's HEAD has no commits: the branch starts at the base commit"
      : `the clone's repository cannot be read (${error.message}): the change is in the patch, not on a branch`;
    return { commit: null, hasRepository: isUnborn, note };
  }
}
