/** Where a run is. The last three are final. */
export const statuses = ["queued", "running", "waiting", "succeeded", "failed", "cancelled"] as const;
export type Status = (typeof statuses)[number];
export type TerminalStatus = "succeeded" | "failed" | "cancelled";

/** Why a waiting run waits, and so what wakes it. */
export type WaitKind = "approval" | "input" | "paused" | "quota" | "auth" | "timer" | "dependency";

/** Every way a run can end, by class. */
export const reasonClasses = {
  success: ["finished", "verified"],
  agent: ["gave_up", "stuck", "refused", "bad_replies", "verify_failed", "no_change", "ended_by_tool"],
  limit: ["step_limit", "time_limit", "budget_limit", "context_exhausted"],
  infra: ["model_error", "environment_error", "workspace_error", "crash_loop"],
  policy: ["policy"],
  cancelled: ["cancelled"],
} as const;
export type ReasonClass = keyof typeof reasonClasses;
export type Reason = (typeof reasonClasses)[ReasonClass][number];

/** How a run ended. `result` is the answer, `error` what a person needs to know where there is none. */
export interface Outcome {
  status: TerminalStatus;
  reason: Reason;
  result: string | null;
  error: string | null;
}

/** The error of a run that ended as `crash_loop`. */
export const crashLoopError =
  "its workers died with this run again and again, without a step in between, the last time with nothing else in the worker: see what it does with pawl logs, then pawl retry";

export function isTerminal(status: Status): status is TerminalStatus {
  return status === "succeeded" || status === "failed" || status === "cancelled";
}

/** The class of a reason, or null for a run that has not ended. */
export function classOf(reason: string | null): ReasonClass | null {
  for (const [name, reasons] of Object.entries(reasonClasses)) {
    if ((reasons as readonly string[]).includes(reason ?? "")) return name as ReasonClass;
  }
  return null;
}

/** An outcome with the status its reason implies. */
export function outcomeOf(
  reason: Reason,
  facts: { result?: string | null; error?: string | null } = {},
): Outcome {
  const reasonClass = classOf(reason);
  const status =
    reasonClass === "success" ? "succeeded" : reasonClass === "cancelled" ? "cancelled" : "failed";
  return { status, reason, result: facts.result ?? null, error: facts.error ?? null };
}
