import { readFile } from "node:fs/promises";
import path from "node:path";
import type { RunPaths } from "../paths.ts";

/** The change of a finished run as `git apply` reads it, in bytes; empty without a change, null where it is not known. */
export async function readPatch(run: RunPaths): Promise<Buffer | null> {
  return readFile(patchFile(run)).catch(() => null);
}

export function patchFile(run: RunPaths): string {
  return path.join(run.dir, "final.patch");
}
