import type { RunView } from "../db/read.ts";
import type { Store } from "../db/store.ts";
import { isTerminal } from "../outcome.ts";
import { type DataPaths, runPaths } from "../paths.ts";
import { type Change, diffTrees } from "../workspace/diff.ts";
import { withStore } from "./look.ts";
import { note, paint, printData, printJson, type Style } from "./output.ts";
import { patchOf } from "./patch.ts";
import { asConfigError, readStep, treeAfter } from "./step.ts";

/** `pawl diff RUN`: the change from base to end, or of one step, as a patch; byte for byte where nobody looks at it. */
export async function diff(reference: string, options: { step?: string; json?: boolean }): Promise<void> {
  await withStore(async ({ paths, store }) => {
    const run = await store.findRun(reference);
    const step = options.step === undefined ? undefined : readStep(options.step, { run, least: 1 });
    // Before its first snapshot a run that goes on has nothing to show, which patchOf says.
    const isGoing = step === undefined && !isTerminal(run.status) && run.tree !== null;
    const found =
      step === undefined && !isGoing
        ? { patch: await patchOf(run, paths) }
        : await snapshotDiff({ store, run, paths }, { from: (step ?? 1) - 1, to: step ?? null });
    const { id, baseCommit: base, headCommit: head } = run;
    const { patch } = found;
    if (options.json)
      printJson({
        id,
        base,
        head,
        ...(step !== undefined && { step }),
        ...found,
        patch: patch.toString("utf8"),
      });
    else printData(process.stdout.isTTY ? coloured(patch.toString("utf8")) : patch);
    const what = step === undefined ? `run ${run.id}` : `step ${step} of run ${run.id}`;
    if (patch.length === 0 && !options.json) note(`${what} changed no file${isGoing ? " so far" : ""}`);
  });
}

/** The difference between two snapshots; `to` null is the newest. */
async function snapshotDiff(
  { store, run, paths }: { store: Store; run: RunView; paths: DataPaths },
  { from, to }: { from: number; to: number | null },
): Promise<{ files: Change[]; patch: Buffer }> {
  const before = await treeAfter(store, run, from);
  const after = to === null ? (run.tree ?? before) : await treeAfter(store, run, to);
  const trees = { run: runPaths(paths, run.id), from: before, to: after };
  return asConfigError(diffTrees(trees));
}

const styles: [start: RegExp, style: Style][] = [
  [/^(diff|index|---|\+\+\+|new|deleted|old) /, "bold"],
  [/^@@/, "cyan"],
  [/^\+/, "green"],
  [/^-/, "red"],
];

function coloured(patch: string): string {
  return patch
    .split("\n")
    .map((line) => {
      const style = styles.find(([start]) => start.test(line))?.[1];
      return style === undefined ? line : paint(style, line);
    })
    .join("\n");
}
