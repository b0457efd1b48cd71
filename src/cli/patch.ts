import type { RunView } from "../db/read.ts";
import { ConfigError } from "../errors.ts";
import { isTerminal } from "../outcome.ts";
import { type DataPaths, runPaths } from "../paths.ts";
import { readPatch } from "../workspace/patch-file.ts";

/** The patch of a run that has ended; empty where it changed nothing. Throws ConfigError where there is none. */
export async function patchOf(run: RunView, paths: DataPaths): Promise<Buffer> {
  const patch = await readPatch(runPaths(paths, run.id));
  if (patch !== null) return patch;
  if (!isTerminal(run.status)) {
    throw new ConfigError(
      `expected a run that has ended, got one that is ${run.status}: its change is not complete yet`,
    );
  }
  const { changedFiles, error } = JSON.parse(run.outcome ?? "{}") as {
    changedFiles?: string[] | null;
    error?: string | null;
  };
  if (changedFiles?.length === 0) return Buffer.alloc(0);
  throw new ConfigError(`run ${run.id} left no patch${error ? `: ${error}` : ""}`);
}
