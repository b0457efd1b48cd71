import { existsSync } from "node:fs";
import { nextAction } from "../agent/next-action.ts";
import type { RunLog } from "../agent/run-log.ts";
import { runPaths } from "../paths.ts";
import type { TaskSpec } from "../producer/task.ts";
import { type Change, listChanges } from "../workspace/diff.ts";
import { prepareWorkspace } from "../workspace/prepare.ts";
import { restoreTree } from "../workspace/restore.ts";
import { snapshot } from "../workspace/snapshot.ts";
import type { Workspace } from "../workspace/workspace.ts";
import type { Work } from "./execute-run.ts";

/** Changed paths named to the model at the most. */
const maxNamedPaths = 50;

/** Keeps a run's log and its workspace in agreement. */
export interface WorkspaceWatch {
  /** The tree of the workspace as it is; null where no snapshot can be taken, which is recorded once. */
  snapshot(): Promise<string | null>;
  /** Makes a workspace that is gone anew; gives what the model must be told of it, once. */
  ensure(): Promise<string | null>;
  /** What changed since the last snapshot while a call was interrupted, kept or taken back as the task says. */
  describeInterruption(): Promise<string | null>;
  /** For an owner that goes on: tells the model what changed in the workspace while nobody worked on the run. */
  compare(): Promise<void>;
}

export function watchWorkspace(options: {
  work: Work;
  spec: TaskSpec;
  workspace: Workspace;
  log: RunLog;
}): WorkspaceWatch {
  const { work, spec, workspace, log } = options;
  const { resources, row, claim, controller } = work;
  const run = runPaths(resources.paths, row.id);
  const at = { path: workspace.path, run, signal: controller.signal };
  let isSkipSaid = false;
  // Said with the first result where the log has no place for a note.
  let untold: string | null = null;

  async function take(): Promise<string | null> {
    if (workspace.baseTree === null) return null;
    const taken = await snapshot(at);
    if ("tree" in taken) return taken.tree;
    if (!isSkipSaid)
      await resources.store.addEvent(claim, { kind: "snapshot_skipped", data: { reason: taken.skipped } });
    isSkipSaid = true;
    return null;
  }

  /** What differs from the last snapshot; empty where nothing does or nobody knows. */
  async function findChanges(): Promise<{ last: string | null; changes: Change[] }> {
    const last = log.tree();
    const now = last === null ? null : await take();
    return {
      last,
      changes: last === null || now === null ? [] : await listChanges({ run, from: last, to: now }),
    };
  }

  return {
    snapshot: take,

    async ensure() {
      if (!existsSync(workspace.path)) {
        const { repo, ref, dir } = spec;
        const request = { paths: resources.paths, run, repo, ref, dir, lastTree: log.tree() };
        const { rebuilt = null } = await prepareWorkspace(request, controller.signal);
        await resources.store.addEvent(claim, { kind: "workspace_rebuilt", data: { path: workspace.path } });
        untold = rebuilt;
      }
      const told = untold;
      untold = null;
      return told;
    },

    async describeInterruption() {
      const { last, changes } = await findChanges();
      if (last === null) return null;
      if (changes.length === 0) return "Nothing in the workspace has changed since the step before.";
      const list = describeChanges(changes);
      if (spec.onInterrupt !== "rollback") return `Changed in the workspace since the step before:\n${list}`;
      await restoreTree({
        run,
        tree: last,
        target: workspace.path,
        isWorkspace: true,
        signal: controller.signal,
      });
      return `The workspace was put back to how it was after the step before. Taken back:\n${list}`;
    },

    async compare() {
      const { pending, entries, steps } = log.state;
      // Between a call and its result nothing may be said, and a run that has its end is not asked again.
      const canTell = nextAction(log.state, { maxSteps: Number.POSITIVE_INFINITY }).kind === "ask";
      if (workspace.rebuilt !== undefined) {
        await resources.store.addEvent(claim, { kind: "workspace_rebuilt", data: { path: workspace.path } });
        if (canTell) log.appendNote(workspace.rebuilt);
        else untold = workspace.rebuilt;
        return;
      }
      const hasResults = entries.some((entry) => entry.kind === "result" && entry.step === steps);
      // In the middle of a step the last snapshot is older than the results: a difference says nothing.
      if (pending.length > 0 && (hasResults || pending.some((call) => call.startedEpoch !== null))) return;
      const { changes } = await findChanges();
      if (changes.length === 0) return;
      const files = changes.slice(0, maxNamedPaths).map((change) => change.path);
      await resources.store.addEvent(claim, {
        kind: "workspace_changed",
        data: { count: changes.length, files },
      });
      if (canTell) {
        log.appendNote(
          `While nobody worked on this task, others changed files in the workspace:\n${describeChanges(changes)}`,
        );
      }
    },
  };
}

function describeChanges(changes: Change[]): string {
  const named = changes.slice(0, maxNamedPaths).map(({ status, path }) => `${status} ${path}`);
  const rest = changes.length - named.length;
  return [...named, ...(rest > 0 ? [`and ${rest} more`] : [])].join("\n");
}
