import type { ModelError } from "../errors.ts";

/** When a request to the model is made again. */
export interface RetryPolicy {
  /** Requests in all, the first one included. */
  attempts: number;
  /** Wait before the second request; doubled before each later one. */
  baseDelayMs: number;
  /** Upper bound of one wait, whatever the provider asks for. */
  maxDelayMs: number;
  /** No request begins later than this after the first one: what a dead server costs is this and one request's time. */
  maxRetryMs: number;
  /** In [0, 1). */
  random: () => number;
}

export const retryDefaults: RetryPolicy = {
  attempts: 8,
  baseDelayMs: 1_000,
  maxDelayMs: 60_000,
  maxRetryMs: 600_000,
  random: Math.random,
};

/** How long to wait after the `attempt`-th request failed, in milliseconds; undefined where asking again is of no use. */
export function delayBefore(error: ModelError, attempt: number, policy: RetryPolicy): number | undefined {
  const { attempts, baseDelayMs, maxDelayMs, random } = policy;
  const asked = error.retryAfterMs;
  const isSoon = error.kind === "quota" && asked !== undefined && asked <= maxDelayMs;
  if (attempt >= attempts || (error.kind !== "retry" && !isSoon)) return undefined;
  const backoffMs = Math.min(maxDelayMs, baseDelayMs * 2 ** (attempt - 1)) * (0.5 + random() / 2);
  if (asked === undefined) return Math.round(backoffMs);
  // Never earlier than asked, and not all at the same moment; who asks for no wait to speak of gets one all the same.
  const askedMs = Math.min(maxDelayMs, asked * (1 + random() / 10));
  return Math.round(asked < baseDelayMs ? Math.max(askedMs, backoffMs) : askedMs);
}
