import { mkdir, realpath, rename, writeFile } from "node:fs/promises";
import path from "node:path";
import type { RunPaths } from "../paths.ts";
import { git, tryGit } from "./git.ts";
import { storeOptions } from "./snapshot-store.ts";

/**
 * Brings a commit of the run's own repository into the clone and points a branch at it. Objects and ref are written into
 * the clone's folders from outside: a push or `git branch` would run what the agent may have configured there.
 */
export async function installBranch(options: {
  run: RunPaths;
  clone: string;
  branch: string;
  commit: string;
  /** A commit that the clone has. */
  parent: string;
  signal?: AbortSignal | undefined;
  confirmOwned?: (() => Promise<void>) | undefined;
}): Promise<void> {
  const { run, clone, branch, commit, parent, signal, confirmOwned } = options;
  const objects = await folderInside(clone, ["objects"]);
  const store = storeOptions(run);
  const env = {
    ...store.env,
    GIT_OBJECT_DIRECTORY: objects,
    GIT_ALTERNATE_OBJECT_DIRECTORIES: JSON.stringify(run.objects),
  };
  const own = { ...store, env: { ...store.env, GIT_OBJECT_DIRECTORY: objects }, signal };
  const known = await tryGit(["cat-file", "-e", `${parent}^{tree}`], own);
  if (known.exitCode !== 0) throw new Error("the clone has lost the commit to build on");
  const input = `${commit}\n^${parent}\n`;
  await mkdir(path.join(objects, "pack"), { recursive: true });
  await git(["pack-objects", "--quiet", "--revs", path.join(objects, "pack", "pack")], {
    ...store,
    env,
    input,
    signal,
  });
  const parts = branch.split("/");
  const folder = await folderInside(clone, ["refs", "heads", ...parts.slice(0, -1)]);
  const ref = path.join(folder, parts.at(-1) ?? "");
  await confirmOwned?.();
  await writeFile(`${ref}.lock`, `${commit}\n`);
  await rename(`${ref}.lock`, ref);
}

/** A folder of the clone's repository, made if missing. Throws where a link leads out of it. */
async function folderInside(clone: string, parts: string[]): Promise<string> {
  let folder = path.join(await realpath(clone), ".git");
  for (const part of parts) {
    folder = path.join(folder, part);
    await mkdir(folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
    if ((await realpath(folder)) !== folder) throw new Error(`${folder} is a link`);
  }
  return folder;
}
