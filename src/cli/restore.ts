import path from "node:path";
import type { RunView } from "../db/read.ts";
import type { Store } from "../db/store.ts";
import { ConfigError, WorkspaceError } from "../errors.ts";
import { isTerminal } from "../outcome.ts";
import { type RunPaths, runPaths } from "../paths.ts";
import { storedSpec } from "../report/stored-spec.ts";
import { restoreTree, revertTree, type StepTrees } from "../workspace/restore.ts";
import { snapshot } from "../workspace/snapshot.ts";
import { withStore } from "./look.ts";
import { print, printJson } from "./output.ts";
import { asConfigError, readStep, treeAfter } from "./step.ts";

interface Options {
  step: string;
  to?: string;
  json?: boolean;
}

/** `pawl restore RUN --step N --to DIR`: the files as they were after a step; without --to a run in place is undone. */
export async function restore(reference: string, options: Options): Promise<void> {
  await withStore(async ({ paths, store }) => {
    const run = await store.findRun(reference);
    const step = readStep(options.step, { run, least: 0 });
    const tree = await treeAfter(store, run, step);
    const files = runPaths(paths, run.id);
    const input = { store, run, files, tree, step };
    const to = options.to === undefined ? null : path.resolve(options.to);
    const isInPlace = to === null || to === storedSpec(run).dir;
    const restored = await asConfigError(isInPlace ? undo(input) : copyTo(files, tree, to));
    if (options.json) return printJson({ id: run.id, step, tree, ...restored });
    print(`${restored.target} is as it was after step ${step} of run ${run.id}`);
    if (restored.saved !== null) print(`what it was before is kept as snapshot ${restored.saved}`);
  });
}

interface Restored {
  target: string;
  /** Snapshot of what was there before. */
  saved: string | null;
}

async function copyTo(run: RunPaths, tree: string, target: string): Promise<Restored> {
  return { target, ...(await restoreTree({ run, tree, target, isWorkspace: false })) };
}

/** Takes back what the run did in the user's folder; what others did there since stays. */
async function undo(input: {
  store: Store;
  run: RunView;
  files: RunPaths;
  tree: string;
  step: number;
}): Promise<Restored> {
  const { store, run, files, tree, step } = input;
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
  const now = await snapshot({ path: dir, run: files });
  if ("skipped" in now)
    throw new WorkspaceError(
      `${dir} is left as it is, because no snapshot of it can be taken first: ${now.skipped}`,
    );
  const steps = await ownSteps(store, run);
  const wanted = await revertTree({ run: files, tree: now.tree, source: tree, steps });
  const { saved } = await restoreTree({ run: files, tree: wanted, target: dir, isWorkspace: true });
  await store.addPersonalEvent(run.id, { kind: "restored", data: { step, saved } });
  return { target: dir, saved };
}

/** What the run's own calls changed: a snapshot that came with a note is of what others did between two owners. */
async function ownSteps(store: Store, run: RunView): Promise<StepTrees[]> {
  const snapshots = await store.loadSnapshots(run.id);
  const kinds = new Map((await store.loadMessages(run.id)).map(({ seq, kind }) => [seq, kind]));
  return snapshots.flatMap(({ seq, tree: to }, index) => {
    const from = snapshots[index - 1]?.tree;
    return from !== undefined && kinds.get(seq) === "result" ? [{ from, to }] : [];
  });
}
