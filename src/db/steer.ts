import { eq, sql } from "drizzle-orm";
import { ConfigError } from "../errors.ts";
import { isTerminal, type Status } from "../outcome.ts";
import type { TaskChanges, TaskSpec } from "../producer/task.ts";
import { refusedTools } from "../protocol-name.ts";
import { cancelRun } from "./cancel.ts";
import type { RunRow } from "./claim.ts";
import { forEachRun, type OnRowFailure, pageSize } from "./each-row.ts";
import { recordEvent } from "./events.ts";
import { laneVerbs } from "./lanes.ts";
import { runs } from "./schema.ts";
import type { StoreContext } from "./store.ts";

/** What a request did: the run's status afterwards, and whether anything changed. */
export interface Steered {
  id: string;
  status: Status;
  changed: boolean;
  /** The run that stands for the task again, where a retry of it was cancelled before it began. */
  stands?: string;
}

/** What a fork has from the run it goes on from. */
const settledInForks = ["model", "modelParameters", "tools", "systemPrompt", "protocol"] as const;

/** Throws ConfigError for a run that is not the last word on its task, and for changes that a fork cannot take. */
export function requireRetryable(
  run: Pick<RunRow, "id" | "status" | "superseded" | "origin" | "spec">,
  changes: TaskChanges,
): void {
  if (!isTerminal(run.status)) {
    throw new ConfigError(
      `expected finished runs to retry, got ${run.id}, which is ${run.status}: pawl cancel ${run.id} ends it`,
    );
  }
  if (run.superseded)
    throw new ConfigError(
      `expected the newest attempt to retry, got ${run.id}, which another has superseded`,
    );
  const settled = settledInForks.filter((name) => changes[name] !== undefined);
  if (run.origin === "fork" && settled.length > 0)
    throw new ConfigError(
      `expected a fork to keep the ${settled.join(", ")} of the run it goes on from, got a change for ${run.id}: retry without it`,
    );
  const spec = JSON.parse(run.spec) as Partial<TaskSpec>;
  const { protocol, tools = null } = { ...spec, ...changes };
  const problem = protocol && refusedTools(protocol, tools);
  if (problem) throw new ConfigError(`run ${run.id}: ${problem}`);
}

/** The verbs of people and of the reconciler: they need no claim. */
export function steerVerbs(context: StoreContext) {
  const { sqlite, db, read, write, now, newId } = context;
  const record = recordEvent(context);
  const lanes = laneVerbs(context);
  const cancel = cancelRun(context);
  // The plus keeps SQLite on the index of what waits.
  const findDue = sqlite.prepare<{ afterId: string; now: number }, { id: string }>(`
    SELECT id FROM runs WHERE status = 'waiting' AND wake_at IS NOT NULL AND wake_at <= @now AND +id > @afterId
    ORDER BY +id LIMIT ${pageSize}`);
  const findCancelled = sqlite.prepare<{ afterId: string }, { id: string }>(`
    SELECT runs.id FROM batches CROSS JOIN runs ON batch_id = batches.id AND status = 'waiting' AND superseded = 0
    WHERE cancel_at IS NOT NULL AND runs.id > @afterId ORDER BY runs.id LIMIT ${pageSize}`);

  function load(id: string) {
    const run = db.select().from(runs).where(eq(runs.id, id)).get();
    if (!run) throw new ConfigError(`expected the id of a run, got ${id}: see pawl list`);
    return run;
  }

  function wake(run: RunRow, kind: string): void {
    db.update(runs)
      .set({
        status: "queued",
        waitKind: null,
        waitNote: null,
        wakeAt: null,
        // One that was paused in line behind another stands in line again; all others kept their place.
        ready: run.ready === 1 ? 1 : lanes.enter(run.lane, run.priority),
        generation: sql`${runs.generation} + 1`,
      })
      .where(eq(runs.id, run.id))
      .run();
    record({ kind, runId: run.id });
  }

  return {
    /** Ends a run that nobody works on; asks the owner of a running one to end it. A finished run stays as it is. */
    cancel(id: string): Promise<Steered> {
      return write(() => {
        const run = load(id);
        const isAsked = run.status === "running" && run.cancelAt !== null;
        if (isTerminal(run.status) || isAsked) return { id, status: run.status, changed: false };
        record({ kind: "cancel_requested", runId: id });
        if (run.status === "running") {
          db.update(runs).set({ cancelAt: now() }).where(eq(runs.id, id)).run();
          return { id, status: run.status, changed: true };
        }
        if (run.cancelAt !== null) return { id, status: run.status, changed: false };
        const status = cancel(run);
        const isTakenBack = status === "cancelled" && run.origin === "retry" && run.originRunId !== null;
        return { id, status, changed: true, ...(isTakenBack && { stands: run.originRunId ?? "" }) };
      });
    },

    /** Holds a run: at once if nobody works on it, whatever it waits for; after its current step if it is running. */
    pause(id: string): Promise<Steered> {
      return write(() => {
        const run = load(id);
        const isHeld = run.pauseAt !== null || run.waitKind === "paused";
        // One that was cancelled is queued only to be ended.
        const isEnding = run.status === "queued" && run.cancelAt !== null;
        if (isTerminal(run.status) || isHeld || isEnding) return { id, status: run.status, changed: false };
        record({ kind: "pause_requested", runId: id });
        if (run.status === "running") {
          db.update(runs).set({ pauseAt: now() }).where(eq(runs.id, id)).run();
          return { id, status: run.status, changed: true };
        }
        db.update(runs)
          .set({ status: "waiting", waitKind: "paused", waitNote: null, wakeAt: null })
          .where(eq(runs.id, id))
          .run();
        return { id, status: "waiting", changed: true };
      });
    },

    /** Puts a waiting run back into the queue, whatever it waits for. */
    resume(id: string): Promise<Steered> {
      return write(() => {
        const run = load(id);
        if (run.status === "running" && run.pauseAt !== null) {
          db.update(runs).set({ pauseAt: null }).where(eq(runs.id, id)).run();
          return { id, status: run.status, changed: true };
        }
        if (run.status !== "waiting") return { id, status: run.status, changed: false };
        wake(run, "resumed");
        return { id, status: "queued", changed: true };
      });
    },

    /**
     * Makes a new run of a finished run's task, with these changes; the old one is superseded and keeps its outcome. Model
     * and endpoint are fixed anew, as they may be what failed. The key still stands for the task as it was enqueued.
     * Gives the new id.
     */
    async retry(id: string, changes: TaskChanges = {}): Promise<string> {
      // Loaded when it is used: the schema library would be a third of a look command's start.
      const { specSchema } = await import("../producer/task.ts");
      return write(() => {
        const run = load(id);
        requireRetryable(run, changes);
        const { priority = run.priority, ...specChanges } = changes;
        db.update(runs).set({ superseded: 1 }).where(eq(runs.id, id)).run();
        // What the old run's owner settled is not part of the task: the new attempt takes today's configuration.
        const { fixed, ...task } = specSchema.parse(JSON.parse(run.spec));
        // A fork begins with a log again, whose model and prompt are settled.
        const isFork = run.origin === "fork";
        const { originRunId, originSeq, promptHash, baseCommit } = run;
        const origin = isFork
          ? { origin: "fork" as const, originRunId, originSeq, promptHash, baseCommit }
          : { origin: "retry" as const, originRunId: id };
        const spec = { ...task, ...(isFork && fixed && { fixed }), ...specChanges };
        const newRun = newId();
        db.insert(runs)
          .values({
            id: newRun,
            batchId: run.batchId,
            key: run.key,
            attempt: run.attempt + 1,
            ...origin,
            spec: JSON.stringify(spec),
            specHash: run.specHash,
            repo: run.repo,
            lane: run.lane,
            model: spec.model,
            priority,
            ready: lanes.enter(run.lane, priority),
            createdAt: now(),
          })
          .run();
        record({ kind: "retried", runId: newRun, batchId: run.batchId, data: { of: id } });
        return newRun;
      });
    },

    /** Queues the waiting runs whose time has come; gives how many. */
    wakeDue(onFailure?: OnRowFailure): Promise<number> {
      return forEachRun({
        load: (afterId) => read(() => findDue.all({ afterId, now: now() })),
        act: (id) =>
          write(() => {
            const run = load(id);
            const isDue = run.status === "waiting" && run.wakeAt !== null && run.wakeAt <= now();
            if (isDue) wake(run, "woken");
            return isDue;
          }),
        onFailure,
      });
    },

    /** The net under `cancel`: ends the waiting runs that were asked to end, since no owner will; gives how many. */
    endCancelled(onFailure?: OnRowFailure): Promise<number> {
      return forEachRun({
        load: (afterId) => read(() => findCancelled.all({ afterId })),
        act: (id) =>
          write(() => {
            const run = load(id);
            const isLeft = run.status === "waiting" && run.cancelAt !== null;
            if (isLeft) cancel(run);
            return isLeft;
          }),
        onFailure,
      });
    },
  };
}
