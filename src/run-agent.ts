import { openPawl, type PawlOptions, type TaskInput } from "./pawl.ts";
import type { RunReport } from "./report/run-view.ts";

/**
 * Runs one agent here and now, to its end, with every step a checkpoint in the data directory: enqueues the task, works on
 * it, and gives the finished run. A run that is interrupted is resumed by any worker on the same data directory.
 */
export async function runAgent(task: TaskInput, options: PawlOptions = {}): Promise<RunReport> {
  const pawl = await openPawl(options);
  try {
    await pawl.requireRunnable(task);
    const [created] = await pawl.enqueue(task);
    if (!created) throw new Error("one task gives one run");
    const worker = await pawl.startWorker({ only: created.id });
    await worker.done;
    return await pawl.getRun(created.id);
  } finally {
    await pawl.close();
  }
}
