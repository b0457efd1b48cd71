import { ModelError } from "../errors.ts";
import type { Model } from "./model.ts";
import { sleep as abortableSleep } from "./sleep.ts";

export interface RetryOptions {
  /** Requests in all, the first one included. */
  attempts?: number;
  /** Wait before the second request; doubled before each later one. */
  baseDelayMs?: number;
  /** Upper bound of one wait, whatever the provider asks for. */
  maxDelayMs?: number;
  /** No request begins later than this after the first one: what a dead server costs is this and one request's time. */
  maxRetryMs?: number;
  /** Waits; rejects with the signal's reason on abort. */
  sleep?: (delayMs: number, signal: AbortSignal) => Promise<void>;
  /** In [0, 1). */
  random?: () => number;
  /** Milliseconds of a clock that nobody sets. */
  now?: () => number;
  /** Told before each wait. */
  onRetry?: (retry: { attempt: number; attempts: number; delayMs: number; error: ModelError }) => void;
}

/**
 * A model that asks again after failures that may pass: kind `retry`, and `quota` where the provider says that it ends
 * within `maxDelayMs`. Throws the last error when its attempts or its time are used up; an abort ends a wait at once.
 */
export function retrying(model: Model, options: RetryOptions = {}): Model {
  const { attempts = 8, maxRetryMs = 600_000, sleep = abortableSleep, onRetry, ...waits } = options;
  const now = options.now ?? (() => performance.now());
  return {
    async ask(request, signal) {
      const startedAt = now();
      for (let attempt = 1; ; attempt += 1) {
        try {
          return await model.ask(request, signal);
        } catch (error) {
          if (attempt >= attempts || !(error instanceof ModelError)) throw error;
          const delayMs = delayBefore(error, attempt, waits);
          if (delayMs === undefined || now() + delayMs - startedAt > maxRetryMs) throw error;
          onRetry?.({ attempt, attempts, delayMs, error });
          await sleep(delayMs, signal);
        }
      }
    },
  };
}

/** Undefined where asking again soon is of no use. */
function delayBefore(
  error: ModelError,
  attempt: number,
  { baseDelayMs = 1_000, maxDelayMs = 60_000, random = Math.random }: RetryOptions,
): number | undefined {
  const asked = error.retryAfterMs;
  if (error.kind !== "retry" && !(error.kind === "quota" && asked !== undefined && asked <= maxDelayMs)) {
    return undefined;
  }
  // Never earlier than asked, and not all at the same moment.
  if (asked !== undefined) return Math.min(maxDelayMs, Math.round(asked * (1 + random() / 10)));
  const backoffMs = Math.min(maxDelayMs, baseDelayMs * 2 ** (attempt - 1));
  return Math.round(backoffMs * (0.5 + random() / 2));
}
