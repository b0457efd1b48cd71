/** The callers asleep in `Queue.wait`, longest first. */
export interface Waiters {
  readonly size: number;
  /** Resolves when woken, after `timeoutMs`, or on abort, whichever is first. Never rejects. */
  wait(timeoutMs: number, signal: AbortSignal): Promise<void>;
  /** Wakes who has waited longest; false when nobody waits. */
  wakeOne(): boolean;
  wakeAll(): void;
}

/** `setTimeout` fires at once beyond this many milliseconds (24 days). */
const longestTimeoutMs = 2 ** 31 - 1;

export function createWaiters(): Waiters {
  const sleeping = new Set<() => void>();

  function wait(timeoutMs: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", wake);
        sleeping.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, Math.min(timeoutMs, longestTimeoutMs));
      signal.addEventListener("abort", wake);
      sleeping.add(wake);
    });
  }

  function wakeOne(): boolean {
    for (const wake of sleeping) {
      wake();
      return true;
    }
    return false;
  }

  function wakeAll(): void {
    for (const wake of [...sleeping]) wake();
  }

  return {
    get size() {
      return sleeping.size;
    },
    wait,
    wakeOne,
    wakeAll,
  };
}
