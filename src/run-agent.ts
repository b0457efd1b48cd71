import { ConfigError } from "./errors.ts";
import { openPawl, type PawlOptions } from "./pawl.ts";
import type { TaskInput } from "./producer/new-task.ts";
import type { RunReport } from "./report/run-view.ts";

/**
 * Runs one agent here and now, to its end, with every step a checkpoint in the data directory: enqueues the task, works on
 * it, and gives the finished run. A run that is interrupted is resumed by any worker on the same data directory. A key that the
 * same task was run under gives that run; under which another task was run, it is a ConfigError.
 */
export async function runAgent(task: TaskInput, options: PawlOptions = {}): Promise<RunReport> {
  const pawl = await openPawl(options);
  try {
    await pawl.requireRunnable(task);
    const [created] = await pawl.enqueue(task);
    if (!created) throw new Error("one task gives one run");
    if (created.changed)
      throw new ConfigError(
        `expected a key of its own for this task, got ${JSON.stringify(created.key)}, which run ${created.id} has for another task: nothing was run`,
      );
    const worker = await pawl.startWorker({ only: created.id });
    await worker.done;
    return await pawl.getRun(created.id);
  } finally {
    await pawl.close();
  }
}
