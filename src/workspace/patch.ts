import { randomUUID } from "node:crypto";
import { rename, rm } from "node:fs/promises";
import type { RunPaths } from "../paths.ts";
import { git } from "./git.ts";
import { patchFile } from "./patch-file.ts";
import { storeOptions } from "./snapshot-store.ts";

interface DiffOptions {
  run: RunPaths;
  from: string;
  to: string;
  signal?: AbortSignal | undefined;
}

/** Writes the difference of two trees to the run's patch file; empty where there is none. */
export async function writePatch(
  options: DiffOptions & { confirmOwned?: (() => Promise<void>) | undefined },
): Promise<void> {
  const file = patchFile(options.run);
  const making = `${file}.${randomUUID()}.tmp`;
  try {
    await writeDiff({ ...options, file: making });
    await options.confirmOwned?.();
    await rename(making, file);
  } finally {
    await rm(making, { force: true });
  }
}

/** Writes the difference of two trees to a file, as `git apply` reads it. */
export async function writeDiff({
  run,
  from,
  to,
  file,
  signal,
}: DiffOptions & { file: string }): Promise<void> {
  const form = [
    "--binary",
    "--full-index",
    "--no-renames",
    "--no-color",
    "--src-prefix=a/",
    "--dst-prefix=b/",
  ];
  await git(["diff", ...form, `--output=${file}`, from, to], { ...storeOptions(run), signal });
}
