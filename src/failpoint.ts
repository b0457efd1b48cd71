/**
 * Places where a crash test kills or stops the process, in the order a run passes them. They are in the only build there is and do
 * nothing unless PAWL_FAILPOINT names one.
 */
export const failpoints = [
  "enqueue.committed",
  "worker.registered",
  "takeover.committed",
  "claim.committed",
  "mirror.updated",
  "workspace.made",
  "workspace.rebuilt",
  "workspace.prepared",
  "begin.committed",
  "task.committed",
  "plan.committed",
  "model.answered",
  "reply.committed",
  "call.started",
  "command.started",
  "command.finished",
  "call.finished",
  "result.committed",
  "summary.planned",
  "summary.answered",
  "compaction.committed",
  "finish.started",
  "finish.gathered",
  "finish.patched",
  "finish.prepared",
  "finish.committed",
  "release.committed",
  "wait.committed",
] as const;
export type Failpoint = (typeof failpoints)[number];

/** A signal to a process with threads takes a moment to stop them all. */
const signalMs = 20;

let armed: { name: string; left: number; signal: "SIGKILL" | "SIGSTOP" } | undefined;

/**
 * Arms one failpoint from `name[:count[:stop]]`: the process kills itself with SIGKILL at the count-th pass, or, with
 * `stop`, stops itself with SIGSTOP until somebody sends SIGCONT.
 */
export function armFailpoint(setting: string | undefined): void {
  const [name, count, way] = (setting ?? "").split(":");
  armed = name
    ? { name, left: Number(count ?? 1), signal: way === "stop" ? "SIGSTOP" : "SIGKILL" }
    : undefined;
}

export function failpoint(name: Failpoint): void {
  if (armed?.name !== name) return;
  armed.left -= 1;
  if (armed.left !== 0) return;
  process.kill(process.pid, armed.signal);
  // Another thread may have taken the signal: this one is not to go on before it has reached it too.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, signalMs);
}
