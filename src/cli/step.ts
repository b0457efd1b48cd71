import type { RunView } from "../db/read.ts";
import type { Store } from "../db/store.ts";
import { ConfigError, WorkspaceError } from "../errors.ts";
import { GitError } from "../workspace/git.ts";

/** The number of a step as the command line gives it. */
export function readStep(text: string, least: number): number {
  const step = Number(text);
  if (/^\d+$/.test(text) && step >= least) return step;
  throw new ConfigError(`expected --step to be a whole number from ${least} on, got ${JSON.stringify(text)}`);
}

/** The snapshot of the workspace as it was after a step; 0 is before the first. Throws ConfigError where there is none. */
export async function treeAfter(store: Store, run: RunView, step: number): Promise<string> {
  const end = await store.getStep(run.id, step);
  if (!end) throw new ConfigError(`expected a step that run ${run.id} has (0 to ${run.steps}), got ${step}`);
  if (end.tree === null)
    throw new ConfigError(`run ${run.id} has no snapshot of its workspace up to step ${step}`);
  return end.tree;
}

/** What files and git say against a command is for the person who gave it: one line, and no fault of ours. */
export async function asConfigError<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof WorkspaceError) throw new ConfigError(error.message);
    if (error instanceof GitError)
      throw new ConfigError(`the run's snapshots cannot be read: ${error.message}`);
    throw error;
  }
}
