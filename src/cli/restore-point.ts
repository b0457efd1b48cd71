import type { RunView } from "../db/read.ts";
import type { Store } from "../db/store.ts";
import { ConfigError } from "../errors.ts";
import type { StepTrees } from "../workspace/restore.ts";
import { readStep, treeAfter } from "./step.ts";

/** What to put back. */
export interface RestorePoint {
  tree: string;
  /** Null for a snapshot. */
  step: number | null;
  /** Where no other folder is named, what these changed becomes as it is in `tree`; all else stays. */
  changes: StepTrees[];
}

const leastPrefix = 7;

/** The state that `--step` or `--snapshot` names. Throws ConfigError where the run has no such. */
export async function findRestorePoint(options: {
  store: Store;
  run: RunView;
  step: string | undefined;
  snapshot: string | undefined;
}): Promise<RestorePoint> {
  const { store, run } = options;
  if (options.step === undefined && options.snapshot !== undefined)
    return findSnapshot(store, run, options.snapshot);
  if (options.step === undefined || options.snapshot !== undefined)
    throw new ConfigError("expected either --step with a step's number or --snapshot with a snapshot's hash");
  const step = readStep(options.step, { run, least: 0 });
  return { tree: await treeAfter(store, run, step), step, changes: await ownSteps(store, run) };
}

/** A snapshot that was kept when something was put back is the undoing of that: it concerns what that changed. */
async function findSnapshot(store: Store, run: RunView, hash: string): Promise<RestorePoint> {
  const kept = new Map((await store.loadEvents({ runId: run.id })).flatMap(({ data }) => keptBy(data)));
  const taken = (await store.loadSnapshots(run.id)).map(({ tree }) => tree);
  const isHash = new RegExp(`^[0-9a-f]{${leastPrefix},}$`).test(hash);
  const [tree, second] = new Set(
    [...kept.keys(), ...taken].filter((each) => isHash && each.startsWith(hash)),
  );
  if (tree === undefined || second !== undefined) {
    const found = tree === undefined ? "" : `, which is the beginning of ${tree} and ${second}`;
    throw new ConfigError(
      `expected the hash of a snapshot of run ${run.id}, got ${JSON.stringify(hash)}${found}: pawl restore says it when it puts files back, pawl logs ${run.id} repeats it`,
    );
  }
  const to = kept.get(tree);
  return { tree, step: null, changes: to === undefined ? await ownSteps(store, run) : [{ from: tree, to }] };
}

/** Of an event by which files were put back: the snapshot of what was there, and the one that came in its place. */
function keptBy(data: string | null): [saved: string, tree: string][] {
  const { saved, tree } = JSON.parse(data ?? "{}") as { saved?: unknown; tree?: unknown };
  return typeof saved === "string" && typeof tree === "string" ? [[saved, tree]] : [];
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
