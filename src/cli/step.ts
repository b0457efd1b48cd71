import type { RunView } from "../db/read.ts";
import type { Store } from "../db/store.ts";
import { ConfigError, WorkspaceError } from "../errors.ts";
import { GitError } from "../workspace/git.ts";

/** The number of a step of a run as the command line gives it, numbered as its log does: what a fork copied counts. */
export function readStep(text: string, { run, least }: { run: RunView; least: 0 | 1 }): number {
  const step = Number(text);
  const last = run.steps + run.copiedSteps;
  if (/^\d+$/.test(text) && step >= least && step <= last) return step;
  const range = last < least ? "it has none yet" : `${least} to ${last}`;
  throw new ConfigError(
    `expected --step to be a step of run ${run.id} (${range}), got ${JSON.stringify(text)}`,
  );
}

/** The snapshot of the workspace as it was after a step; 0 is before the first. Throws ConfigError where there is none. */
export async function treeAfter(store: Store, run: RunView, step: number): Promise<string> {
  const end = await store.getStep(run.id, step);
  if (!end || end.tree === null)
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
