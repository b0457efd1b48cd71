import type { Hint, Queue } from "./queue.ts";
import { createWaiters } from "./waiters.ts";

export interface EmbeddedQueueOptions {
  /** A number that changes when another process commits to the database: `PRAGMA data_version` (1.2 µs). */
  dataVersion: () => number;
  /** How often the number is read while someone waits. */
  pollMs?: number;
}

/**
 * The queue that needs no service: the database file is the carrier. Hints of this process wake its waiters at
 * once; commits of other processes are noticed by polling. It may wake somebody for nothing, never the reverse.
 */
export function embeddedQueue({ dataVersion, pollMs = 20 }: EmbeddedQueueOptions): Queue {
  const waiters = createWaiters();
  let version = readVersion(dataVersion);
  let changes = 0;
  // The value of `changes` when each caller that is now looking for work began to: what has changed since then it
  // may have missed. Callers are not known by name, so whoever waits next answers for the oldest look. That is
  // enough: a caller waits only after it found nothing, so nothing is left for those that began before it.
  const looking: number[] = [];
  let poll: NodeJS.Timeout | undefined;
  let isClosed = false;

  function noteChange(): void {
    changes += 1;
    waiters.wakeAll();
  }

  function lookForCommits(): void {
    const current = readVersion(dataVersion);
    if (current === undefined || current === version) return;
    version = current;
    noteChange();
  }

  async function publish(hints: Hint[]): Promise<void> {
    if (hints.length > 0) noteChange();
  }

  async function wait(timeoutMs: number, signal: AbortSignal): Promise<void> {
    if (!isClosed) lookForCommits();
    const seen = looking.shift() ?? 0;
    if (seen === changes || isClosed) await sleep(timeoutMs, signal);
    looking.push(changes);
  }

  async function sleep(timeoutMs: number, signal: AbortSignal): Promise<void> {
    if (!isClosed) poll ??= setInterval(lookForCommits, pollMs);
    await waiters.wait(timeoutMs, signal);
    if (waiters.size === 0) stopPolling();
  }

  function stopPolling(): void {
    clearInterval(poll);
    poll = undefined;
  }

  async function close(): Promise<void> {
    isClosed = true;
    stopPolling();
    waiters.wakeAll();
  }

  return {
    publish,
    wait,
    // It holds nothing, so nothing of it is ever lost or left over.
    getIncarnation: async () => "embedded",
    loadHints: async () => [],
    removeHints: async () => {},
    close,
  };
}

/** Undefined when the database cannot be read just now: a look that failed must not end somebody's wait. */
function readVersion(dataVersion: () => number): number | undefined {
  try {
    return dataVersion();
  } catch {
    return undefined;
  }
}
