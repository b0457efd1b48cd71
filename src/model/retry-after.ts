/** Nobody is believed that it wants more. */
const mostWaitMs = 86_400_000;
/** Numbers from here on are instants in seconds, and from the second on in milliseconds. */
const leastEpochSeconds = 1_000_000_000;
const leastEpochMs = 100_000_000_000;

/** A status that means "too much is asked of us"; a 503 only where it says for how long. */
export function isLimitStatus(status: number, waitMs: number | undefined): boolean {
  return status === 429 || status === 529 || (status === 503 && waitMs !== undefined);
}

/**
 * The wait that headers ask for, in milliseconds, at most a day: `retry-after-ms`; `retry-after` in seconds or as a date; else
 * the time until the used-up one of the limits in `x-ratelimit-…` is there again, where a limit was the reason (`isLimit`):
 * some services send those headers with every response. Undefined where nothing sensible is said.
 */
export function retryAfterMs(headers: Headers, now: number, isLimit = true): number | undefined {
  const exact = headers.get("retry-after-ms")?.trim() ?? "";
  if (/^\d+(\.\d+)?$/.test(exact)) return bounded(Number(exact));
  const asked = waitOf(headers.get("retry-after"), now);
  return asked ?? (isLimit ? resetMs(headers, now) : undefined);
}

function resetMs(headers: Headers, now: number): number | undefined {
  const kinds = ["-requests", "-tokens", ""].filter((kind) => headers.has(`x-ratelimit-reset${kind}`));
  const isUsedUp = (kind: string) => Number(headers.get(`x-ratelimit-remaining${kind}`) ?? "1") <= 0;
  const usedUp = kinds.filter(isUsedUp);
  const waits = (usedUp.length > 0 ? usedUp : kinds).flatMap(
    (kind) => waitOf(headers.get(`x-ratelimit-reset${kind}`), now) ?? [],
  );
  if (waits.length === 0) return undefined;
  // Of those that are used up all must be there again; where none says so, the soonest that could be meant.
  return usedUp.length > 0 ? Math.max(...waits) : Math.min(...waits);
}

const unitMs: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `7`, `0.5`, `6m0s`, `20ms`, an instant in seconds or milliseconds since 1970, or a date. */
function waitOf(text: string | null, now: number): number | undefined {
  const value = text?.trim() ?? "";
  if (/^\d+(\.\d+)?$/.test(value)) {
    const number = Number(value);
    if (number >= leastEpochMs) return bounded(number - now);
    return bounded(number >= leastEpochSeconds ? number * 1_000 - now : number * 1_000);
  }
  if (/^(\d+(\.\d+)?(ms|[smhd]))+$/.test(value)) {
    const parts = [...value.matchAll(/(\d+(?:\.\d+)?)(ms|[smhd])/g)];
    return bounded(
      parts.reduce((sum, [, number, unit = ""]) => sum + Number(number) * (unitMs[unit] ?? 0), 0),
    );
  }
  // A date has letters; `-1` and the like are nonsense, though some engines read a year in them.
  const at = /[a-z]/i.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(at) ? undefined : bounded(at - now);
}

function bounded(ms: number): number {
  return Math.min(mostWaitMs, Math.max(0, ms));
}
