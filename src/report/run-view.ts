import type { RunView } from "../db/read.ts";
import type { Store } from "../db/store.ts";
import { classOf, isTerminal, type Reason, type ReasonClass, type Status } from "../outcome.ts";
import { type DataPaths, runPaths } from "../paths.ts";
import type { TaskImage, TaskSpec } from "../producer/task.ts";
import { storedSpec } from "./stored-spec.ts";
import { isoTime } from "./text.ts";
import { reportUsage, type UsageReport } from "./usage.ts";

/** What a running run does at the moment, as its log tells. */
export type Phase = "thinking" | "acting" | "observing" | "finished";

/** A run as `show --json` and `list --json` give it. Times are ISO 8601 UTC; unknown is null. */
export interface RunReport {
  id: string;
  key: string | null;
  batch: string | null;
  attempt: number;
  status: Status;
  reason: Reason | null;
  class: ReasonClass | null;
  phase: Phase | null;
  /** Files as they were stored, or URLs. */
  images: TaskImage[];
  steps: number;
  maxSteps: number;
  epoch: number;
  model: string | null;
  /** As they are sent, once the run has begun; before, what its task says. */
  modelParameters: TaskSpec["modelParameters"] | null;
  protocol: string;
  environment: string;
  workspace: { path: string | null; branch: string | null; base: string | null; head: string | null };
  changedFiles: string[] | null;
  usage: UsageReport;
  waiting: { kind: string; wakeAt: string | null; note: string | null } | null;
  result: string | null;
  error: string | null;
  createdAt: string;
  startedAt: string | null;
  finishedAt: string | null;
}

interface RecordedOutcome {
  result: string | null;
  error: string | null;
  changedFiles: string[] | null;
  notes?: string[];
}

/** What a person should know of what a run left behind; empty for one that has not ended. */
export function notesOf(run: RunView): string[] {
  return (JSON.parse(run.outcome ?? "{}") as Partial<RecordedOutcome>).notes ?? [];
}

/** Builds the report of a run from its row; `phaseOf` gives the phase. */
export function reportRun(run: RunView, paths: DataPaths, phase: Phase | null): RunReport {
  const spec = storedSpec(run);
  const outcome = JSON.parse(
    run.outcome ?? '{"result":null,"error":null,"changedFiles":null}',
  ) as RecordedOutcome;
  const clone = run.epoch > 0 ? runPaths(paths, run.id).workspace : null;
  const waiting = { kind: run.waitKind ?? "paused", wakeAt: isoTime(run.wakeAt), note: run.waitNote };
  return {
    id: run.id,
    key: run.key,
    batch: run.batch,
    attempt: run.attempt,
    status: run.status,
    reason: run.reason,
    class: classOf(run.reason),
    phase,
    images: spec.images ?? [],
    steps: run.steps,
    maxSteps: spec.maxSteps,
    epoch: run.epoch,
    model: run.model,
    modelParameters: spec.fixed?.modelParameters ?? spec.modelParameters ?? null,
    protocol: spec.fixed?.protocol ?? spec.protocol ?? "native",
    environment: spec.fixed?.environment ?? "local",
    workspace: { path: spec.dir ?? clone, branch: run.branch, base: run.baseCommit, head: run.headCommit },
    changedFiles: outcome.changedFiles,
    usage: reportUsage(run),
    waiting: run.status === "waiting" ? waiting : null,
    result: outcome.result,
    error: outcome.error,
    createdAt: new Date(run.createdAt).toISOString(),
    startedAt: isoTime(run.startedAt),
    finishedAt: isoTime(run.finishedAt),
  };
}

/** What the run does now: an open request is thinking, an open call acting, neither is observing. */
export async function phaseOf(store: Store, run: RunView): Promise<Phase | null> {
  if (isTerminal(run.status)) return "finished";
  if (run.status !== "running") return null;
  const tail = await store.loadTail(run.id, null);
  if (tail.lastModelCall?.state === "sent") return "thinking";
  return tail.openCalls.length > 0 ? "acting" : "observing";
}
