import type { GateReason, GateState } from "../db/gates.ts";

// What a gate decides, without storage. A gate is one row for a model of an account; all workers share it. It is open and costs
// nothing until the provider refuses. Then it learns how far apart and how many at once requests may be, and lets go of that again.

export type { GateState };

export const openState: GateState = {
  reason: null,
  note: null,
  pausedUntil: null,
  concurrency: null,
  intervalMs: 0,
  nextAt: 0,
  served: 0,
  refusals: 0,
  refusedAt: 0,
};

/** Why no request may be sent now; `until` is null where only people can say. */
export interface Closed {
  reason: GateReason | "pace" | "hours";
  note: string | null;
  until: number | null;
}

/** What was learned is forgotten when this has passed without a refusal: limits differ by the hour. */
const forgetMs = 600_000;
/** How soon somebody who found all places taken looks again. */
const lookAgainMs = 100;
/** Requests closer together than this are not held apart. */
const leastIntervalMs = 10;
const mostIntervalMs = 60_000;
/** How the interval shrinks with each reply, and grows with each refusal: one in ten, at random, must not make it grow for ever. */
const shrink = 0.98;
const leastGrowth = 1.25;
const mostGrowth = 1.5;
/** The waits after a refusal without a time, doubled up to the bound with each in a row. */
const busyMs = { base: 1_000, most: 60_000 };
const quotaMs = { base: 300_000, most: 3_600_000 };
/** Refusals in a row for which the provider's own time is enough. */
const patience = 3;
/** No provider is believed that it wants more. */
const mostPauseMs = 86_400_000;
/** How long the next model goes before one that failed. */
const failingMs = 600_000;

export function isClosed(answer: unknown): answer is Closed {
  return typeof answer === "object" && answer !== null && "until" in answer;
}

/** Whether requests may pass without being counted. */
export function isFree(state: GateState): boolean {
  const { reason, concurrency, intervalMs } = state;
  return reason === null && concurrency === null && intervalMs === 0;
}

/** Whether the gate is shut. One that is to be opened by time alone is open from then on. */
export function closedNow(state: GateState, now: number): Closed | null {
  const { reason, note, pausedUntil } = state;
  const isShut = reason !== null && (pausedUntil === null || pausedUntil > now);
  return isShut ? { reason, note, until: pausedUntil } : null;
}

/** Lets a request pass: the state after it. `held` requests are under way, `costMs` is what this one takes of the minute. */
export function admit(
  state: GateState,
  { now, held, costMs }: { now: number; held: number; costMs: number },
): GateState | Closed {
  const closed = closedNow(state, now);
  if (closed) return closed;
  const known = forget(state, now);
  // After a quota or an outage one request finds out for all.
  const isProbing = known.reason === "quota" || known.reason === "failing";
  const places = isProbing ? 1 : (known.concurrency ?? Number.POSITIVE_INFINITY);
  if (held >= places) return { reason: "pace", note: null, until: now + lookAgainMs };
  if (known.nextAt > now) return { reason: "pace", note: null, until: known.nextAt };
  return { ...known, nextAt: now + Math.max(known.intervalMs, costMs) };
}

/** After a reply: one more at once each time around, a little closer together. */
export function served(state: GateState, now: number): GateState {
  const isOver = state.reason === "failing" || (state.pausedUntil !== null && state.pausedUntil <= now);
  const { concurrency } = state;
  const grows = concurrency !== null && state.served + 1 >= concurrency;
  const intervalMs = Math.floor(state.intervalMs * shrink);
  return {
    ...state,
    ...(isOver && { reason: null, note: null, pausedUntil: null }),
    concurrency: concurrency === null ? null : concurrency + (grows ? 1 : 0),
    served: grows ? 0 : state.served + 1,
    intervalMs: intervalMs < leastIntervalMs ? 0 : intervalMs,
    refusals: 0,
  };
}

/** A request that the provider did not take, and what is known beside it. */
export interface Refusal {
  now: number;
  /** When it was let pass. */
  sentAt: number;
  note: string;
  retryAfterMs: number | undefined;
  /** Requests under way when it came back, itself included. */
  inFlight: number;
  /** Replies that came within this time until now. */
  servedWithin(ms: number): number;
  /** In [0, 1). */
  random: number;
}

/** After a limit: nobody asks until the time it names, then fewer at once, and as far apart as replies came lately. */
export function limited(state: GateState, refusal: Refusal): GateState {
  const { now, note, retryAfterMs, random } = refusal;
  const isNews = refusal.sentAt > state.refusedAt;
  const refusals = isNews ? state.refusals + 1 : state.refusals;
  // Never earlier than asked, and other workers' clocks and other gates a little apart.
  const backoffMs = (times: number) => (times < 1 ? 0 : doubled(busyMs, times) * (0.5 + random / 2));
  const delayMs =
    retryAfterMs === undefined
      ? backoffMs(Math.max(1, refusals))
      : // Who always says "now" and never means it is not asked all the time.
        Math.max(backoffMs(refusals - patience), Math.min(mostPauseMs, retryAfterMs * (1 + random / 10)));
  const until = Math.ceil(now + delayMs);
  const shut = closedNow(state, now);
  // A quota, or a key that is refused, is no shorter because of an answer that was under way.
  const pause =
    shut && (shut.until === null || shut.until >= until)
      ? {}
      : { reason: "busy" as const, note, pausedUntil: until, nextAt: until };
  // Those that were sent together are refused together: that is one piece of news.
  if (!isNews) return { ...state, ...pause };
  return {
    ...state,
    ...pause,
    concurrency: Math.max(1, Math.floor((state.concurrency ?? refusal.inFlight) / 2)),
    served: 0,
    intervalMs: delayMs > mostIntervalMs ? state.intervalMs : spread(state.intervalMs, delayMs, refusal),
    refusals,
    refusedAt: now,
  };
}

/** After a quota was used up, a key refused or all retries failed. */
export function closed(state: GateState, reason: "quota" | "auth" | "failing", refusal: Refusal): GateState {
  const { now, note, retryAfterMs } = refusal;
  if (refusal.sentAt <= state.refusedAt && state.reason === reason) return state;
  const shut = closedNow(state, now)?.reason;
  if (reason === "failing" && (shut === "auth" || shut === "quota")) return state;
  const refusals = state.refusals + 1;
  const delayMs =
    reason === "failing" ? failingMs : Math.min(mostPauseMs, retryAfterMs ?? doubled(quotaMs, refusals));
  const pausedUntil = reason === "auth" ? null : Math.ceil(now + delayMs);
  return { ...state, reason, note, pausedUntil, refusals, refusedAt: now };
}

function forget(state: GateState, now: number): GateState {
  if (now - state.refusedAt < forgetMs) return state;
  return { ...state, concurrency: null, intervalMs: 0, served: 0 };
}

function doubled({ base, most }: { base: number; most: number }, refusals: number): number {
  return Math.min(most, base * 2 ** Math.min(20, refusals - 1));
}

/** So many intervals are looked back at least: of fewer replies their number says little. */
const leastLookBack = 5;

/** What came back in the time of the pause is what the provider gives in such a time. */
function spread(intervalMs: number, delayMs: number, { servedWithin }: Refusal): number {
  const windowMs = Math.max(busyMs.base, delayMs, intervalMs * leastLookBack);
  const replies = servedWithin(windowMs);
  const learned = replies === 0 ? 0 : windowMs / replies;
  if (intervalMs === 0) return Math.ceil(learned);
  const wider = Math.min(intervalMs * mostGrowth, Math.max(intervalMs * leastGrowth, learned));
  return Math.min(mostIntervalMs, Math.ceil(wider));
}
