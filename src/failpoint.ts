/**
 * Places where a crash test kills the process, in the order a run passes them. They are in the only build there is and do
 * nothing unless PAWL_FAILPOINT names one.
 */
export const failpoints = [
  "enqueue.committed",
  "worker.registered",
  "claim.committed",
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
  "summary.answered",
  "compaction.committed",
  "finish.prepared",
  "finish.committed",
  "release.committed",
] as const;
export type Failpoint = (typeof failpoints)[number];

let armed: { name: string; left: number } | undefined;

/** Arms one failpoint from `name[:count]`: the process kills itself with SIGKILL at the count-th pass. */
export function armFailpoint(setting: string | undefined): void {
  const [name, count] = (setting ?? "").split(":");
  armed = name ? { name, left: Number(count ?? 1) } : undefined;
}

export function failpoint(name: Failpoint): void {
  if (armed?.name !== name) return;
  armed.left -= 1;
  if (armed.left === 0) process.kill(process.pid, "SIGKILL");
}
