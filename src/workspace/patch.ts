import { rename } from "node:fs/promises";
import type { RunPaths } from "../paths.ts";
import { git } from "./git.ts";
import { patchFile } from "./patch-file.ts";
import { storeOptions } from "./snapshot-store.ts";

/** Writes the difference of two trees to the run's patch file; empty where there is none. */
export async function writePatch(options: {
  run: RunPaths;
  from: string;
  to: string;
  signal: AbortSignal | undefined;
}): Promise<void> {
  const { run, from, to, signal } = options;
  const file = patchFile(run);
  const form = [
    "--binary",
    "--full-index",
    "--no-renames",
    "--no-color",
    "--src-prefix=a/",
    "--dst-prefix=b/",
  ];
  await git(["diff", ...form, `--output=${file}.tmp`, from, to], { ...storeOptions(run), signal });
  await rename(`${file}.tmp`, file);
}
