import path from "node:path";
import type { RunView } from "../db/read.ts";
import type { Store } from "../db/store.ts";
import { ConfigError, WorkspaceError } from "../errors.ts";
import { isTerminal } from "../outcome.ts";
import { type RunPaths, runPaths } from "../paths.ts";
import { storedSpec } from "../report/stored-spec.ts";
import { describeChanges } from "../worker/change-list.ts";
import { type Change, listChanges } from "../workspace/diff.ts";
import { restoreTree, revertTree } from "../workspace/restore.ts";
import { snapshot } from "../workspace/snapshot.ts";
import { withStore } from "./look.ts";
import { note, print, printJson } from "./output.ts";
import { findRestorePoint, type RestorePoint } from "./restore-point.ts";
import { asConfigError } from "./step.ts";

interface Options {
  step?: string;
  snapshot?: string;
  to?: string;
  json?: boolean;
}

/**
 * `pawl restore RUN --step N --to DIR`: the files as they were after a step, or in a snapshot that was kept when files
 * were put back; without --to a run in place is put back where it worked.
 */
export async function restore(reference: string, options: Options): Promise<void> {
  await withStore(async ({ paths, store }) => {
    const run = await store.findRun(reference);
    const point = await findRestorePoint({ store, run, step: options.step, snapshot: options.snapshot });
    const files = runPaths(paths, run.id);
    const to = options.to === undefined ? null : path.resolve(options.to);
    const isInPlace = to === null || to === storedSpec(run).dir;
    const work = isInPlace ? putBack({ store, run, files, point }) : copyTo(files, point.tree, to);
    const { target, saved, changed } = await asConfigError(work);
    const { tree, step } = point;
    if (options.json) return printJson({ id: run.id, step, tree, target, saved, changed });
    const state = step === null ? `in snapshot ${tree}` : `after step ${step}`;
    print(`${target} is as it was ${state} of run ${run.id}`);
    if (changed === null || changed.length === 0) return;
    print(describeChanges(changed));
    if (saved !== null) note(`this takes it back: pawl restore ${run.id} --snapshot ${saved}`);
  });
}

interface Restored {
  target: string;
  /** Snapshot of what was there before. */
  saved: string | null;
  /** What is different there now; null for a new folder. */
  changed: Change[] | null;
}

async function copyTo(run: RunPaths, tree: string, target: string): Promise<Restored> {
  return { target, ...(await restoreTree({ run, tree, target, isWorkspace: false })), changed: null };
}

/** Changes in the user's folder what the run changed, or what was put back there before; what others did there stays. */
async function putBack(input: {
  store: Store;
  run: RunView;
  files: RunPaths;
  point: RestorePoint;
}): Promise<Restored> {
  const { store, run, files, point } = input;
  const dir = await requireFreeFolder(store, run);
  const now = await snapshot({ path: dir, run: files });
  if ("skipped" in now)
    throw new WorkspaceError(
      `${dir} is left as it is, because no snapshot of it can be taken first: ${now.skipped}`,
    );
  const { tree: source, changes: steps, step } = point;
  const wanted = await revertTree({ run: files, tree: now.tree, source, steps });
  const { saved } = await restoreTree({ run: files, tree: wanted, target: dir, isWorkspace: true });
  await store.addUnownedEvent(run.id, { kind: "restored", data: { step, saved, tree: wanted } });
  const changed = await listChanges({ run: files, from: saved ?? now.tree, to: wanted });
  return { target: dir, saved, changed };
}

async function requireFreeFolder(store: Store, run: RunView): Promise<string> {
  const { dir } = storedSpec(run);
  if (dir === null)
    throw new ConfigError(
      "expected --to with a folder for the files: only a run in a folder of yours can be put back in place",
    );
  if (!isTerminal(run.status))
    throw new ConfigError(`expected a run that has ended, got one that is ${run.status}: cancel it first`);
  const others = await store.loadRuns({ status: "running" });
  const busy = others.find((other) => storedSpec(other).dir === dir);
  if (busy)
    throw new ConfigError(`expected ${dir} to be free, but run ${busy.id} works in it: cancel it first`);
  return dir;
}
