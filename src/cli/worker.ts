import { loadConfig } from "../config.ts";
import { openPawl } from "../pawl.ts";
import { onStopSignals, stderrProgress } from "./progress.ts";

/** `pawl worker`: works until it is stopped or, with `--drain`, until there is nothing left to do. Stopped in order is exit 0. */
export async function work(options: { concurrency?: string; drain?: boolean }): Promise<void> {
  const settings = options.concurrency === undefined ? {} : { concurrency: options.concurrency };
  const { logLevel } = await loadConfig({ cwd: process.cwd(), env: process.env, flags: settings });
  const pawl = await openPawl({ settings, logger: stderrProgress(logLevel, true) });
  const worker = await pawl.startWorker({ drain: options.drain ?? false });
  const signals = onStopSignals(() => worker.stop());
  await worker.done;
  await pawl.close();
  signals.remove();
  // SIGTERM is how a worker is stopped in order; Ctrl-C is an interruption.
  if (signals.exitCode() === 130) process.exitCode = 130;
}
