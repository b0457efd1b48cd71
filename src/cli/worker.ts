import { loadConfig } from "../config.ts";
import { messageOf } from "../errors.ts";
import { untilRoom } from "../full-disk.ts";
import { openPawl } from "../pawl.ts";
import { onStopSignals, openProgress } from "./progress.ts";

/**
 * `pawl worker`: works until it is stopped or, with `--drain`, until there is nothing left to do. Settings that no run
 * could begin with are a ConfigError before any run is claimed.
 */
export async function work(options: { concurrency?: string; drain?: boolean }): Promise<void> {
  const settings = options.concurrency === undefined ? {} : { concurrency: options.concurrency };
  const { logLevel } = await loadConfig({ cwd: process.cwd(), env: process.env, flags: settings });
  const progress = openProgress({ level: logLevel, manyRuns: true });
  // Even opening needs room; whoever starts it at boot has nobody to start it again.
  const pawl = await untilRoom(() => openPawl({ settings, logger: progress.logger }), {
    signal: new AbortController().signal,
    onFull: (error) => progress.note(`waits for room: ${messageOf(error)}`),
  });
  try {
    const worker = await pawl.startWorker({ drain: options.drain ?? false });
    const signals = onStopSignals(() => worker.stop(), progress.note);
    await worker.done;
    signals.remove();
    // SIGTERM is how a worker is stopped in order; Ctrl-C is an interruption.
    if (signals.received() === "SIGINT") process.exitCode = 130;
  } finally {
    progress.close();
    await pawl.close();
  }
}
