import { existsSync } from "node:fs";
import { nextAction } from "../agent/next-action.ts";
import type { RunLog } from "../agent/run-log.ts";
import { WorkspaceError } from "../errors.ts";
import { runPaths } from "../paths.ts";
import type { TaskSpec } from "../producer/task.ts";
import { type Change, listChanges } from "../workspace/diff.ts";
import { prepareWorkspace } from "../workspace/prepare.ts";
import { restoreTree } from "../workspace/restore.ts";
import { snapshot } from "../workspace/snapshot.ts";
import type { Workspace } from "../workspace/workspace.ts";
import { describeChanges, namedPaths } from "./change-list.ts";
import type { Work } from "./execute-run.ts";
import { withRoom } from "./room.ts";
import { hasSkipped, recordSkipped } from "./skipped-snapshots.ts";
import { untoldNews } from "./untold-news.ts";
import { workspaceRequest } from "./workspace-request.ts";

/** Keeps a run's log and its workspace in agreement. */
export interface WorkspaceWatch {
  /** The tree of the workspace as it is; null where no snapshot can be taken, which is recorded once a run. */
  snapshot(): Promise<string | null>;
  /** Makes a workspace that is gone anew from the last snapshot, and tells the model. */
  ensure(): Promise<void>;
  /** What an interrupted call changed, kept or taken back as the task says; null where nobody knows. */
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
  const { store } = resources;
  const run = runPaths(resources.paths, row.id);
  let isSkipSaid = false;
  const told = new Set<string>();

  async function take(): Promise<string | null> {
    // Without a signal: a call that has ended is recorded with its tree even where the run is broken off.
    const taken =
      workspace.baseTree === null
        ? firstSkipped
        : await withRoom(work, () => snapshot({ path: workspace.path, run }));
    if ("tree" in taken) return taken.tree;
    if (!isSkipSaid) await recordSkipped(store, claim, taken.skipped);
    isSkipSaid = true;
    return null;
  }

  /** What differs from the last snapshot; null where nobody knows. */
  async function findChanges(): Promise<Found | null> {
    const last = log.tree();
    const now = last === null ? null : await take();
    if (last === null || now === null) return null;
    return { last, now, changes: await listChanges({ run, from: last, to: now }) };
  }

  async function rollBack({ last, now, changes }: Found): Promise<string> {
    const { signal } = controller;
    const restore = { run, tree: last, target: workspace.path, isWorkspace: true, signal };
    await withRoom(work, () => restoreTree(restore));
    // What the last try found may be half put back already.
    await store.addEvent(claim, {
      kind: "workspace_rolled_back",
      data: { saved: now, tree: last, count: changes.length, files: namedPaths(changes) },
    });
    return `The workspace was put back to how it was before this call. Taken back:\n${describeChanges(changes)}`;
  }

  /** Where it may be told: not between a call and its result, and not to a run that has its end. */
  function tell(text: string, tree: string | null): void {
    const action = nextAction(log.state, { maxSteps: Number.POSITIVE_INFINITY });
    if (action.kind === "ask") log.appendNote(text, tree);
    if (action.kind === "tell") log.appendNote(`${action.text}\n\n${text}`, tree);
    if (action.kind === "act") log.addNotice(text, tree);
  }

  /** Tells what no message tells yet: an owner may have been killed between the change and its message. */
  async function tellNews({ path, news = [] }: Workspace): Promise<void> {
    const untold = await untoldNews({ store, run, runId: row.id, news, redact: resources.redact });
    for (const { kind, text, afterSeq } of untold) {
      const mark = `${afterSeq} ${text}`;
      if (told.has(mark)) continue;
      told.add(mark);
      await store.addEvent(claim, { kind, data: { path } });
      tell(text, null);
    }
  }

  return {
    snapshot: take,

    async ensure() {
      if (existsSync(workspace.path)) return;
      const last = { lastTree: log.tree(), lastSeq: log.state.seq };
      const request = { ...workspaceRequest(work, spec), ...last };
      await tellNews(await withRoom(work, () => prepareWorkspace(request, controller.signal)));
    },

    async describeInterruption() {
      const found = await findChanges();
      if (found === null) return null;
      if (found.changes.length === 0)
        return "Nothing in the workspace has changed since before this call, files that git ignores aside.";
      const list = `Changed in the workspace since before this call:\n${describeChanges(found.changes)}`;
      if (spec.onInterrupt !== "rollback") return list;
      try {
        return await rollBack(found);
      } catch (error) {
        if (!(error instanceof WorkspaceError)) throw error;
        return `The workspace could not be put back: ${error.message}\n${list}`;
      }
    },

    async compare() {
      await tellNews(workspace);
      if (workspace.reset !== undefined) {
        const { path, notes } = workspace;
        await store.addEvent(claim, { kind: "workspace_reset", data: { path, notes } });
        return tell(workspace.reset, await take());
      }
      // What a call left open has changed is told with its answer.
      if (log.state.pending.some((call) => call.startedEpoch !== null)) return;
      // A skipped snapshot lacks what the run did itself.
      if (await hasSkipped(store, row.id)) return;
      const found = await findChanges();
      if (found === null || found.changes.length === 0) return;
      const { changes, now } = found;
      await store.addEvent(claim, {
        kind: "workspace_changed",
        data: { count: changes.length, files: namedPaths(changes) },
      });
      tell(
        `While nobody worked on this task, others changed files in the workspace:\n${describeChanges(changes)}`,
        now,
      );
    },
  };
}

interface Found {
  last: string;
  now: string;
  changes: Change[];
}

const firstSkipped = { skipped: "the first one could not be taken" };
