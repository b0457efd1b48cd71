import { describe, expect, it } from "vitest";
import {
  admit,
  type Closed,
  closed,
  closedNow,
  type GateState,
  isFree,
  limited,
  openState,
  type Refusal,
  served,
} from "../../src/limits/gate-state.ts";

const at = 1_000_000_000;
const minute = 60_000;

/** A refusal at `at` of a request that was just sent, without a word about when. */
function refusal(facts: Partial<Refusal> = {}): Refusal {
  return {
    now: at,
    sentAt: at - 10,
    note: "slow down",
    retryAfterMs: undefined,
    inFlight: 8,
    servedWithin: () => 0,
    random: 0,
    ...facts,
  };
}

function passed(answer: GateState | Closed): GateState {
  if ("until" in answer) throw new Error(`expected to pass, got ${JSON.stringify(answer)}`);
  return answer;
}

describe("a gate", () => {
  it("is free until something is refused", () => {
    expect(isFree(openState)).toBe(true);
    expect(passed(admit(openState, { now: at, held: 1_000, costMs: 0 }))).toMatchObject({ nextAt: at });
    expect(isFree(limited(openState, refusal()))).toBe(false);
  });

  it("is shut as long as the provider says, and never opens earlier", () => {
    for (const random of [0, 0.5, 0.999]) {
      const state = limited(openState, refusal({ retryAfterMs: 3_000, random }));
      const until = closedNow(state, at)?.until ?? 0;
      expect(until).toBeGreaterThanOrEqual(at + 3_000);
      expect(until).toBeLessThanOrEqual(at + 3_300);
      expect(closedNow(state, until)).toBeNull();
    }
  });

  it("is shut at most a day, whatever the provider says", () => {
    const state = limited(openState, refusal({ retryAfterMs: 1e15 }));
    expect(closedNow(state, at)?.until).toBe(at + 86_400_000);
  });

  it("waits longer with each refusal in a row that names no time, up to a minute", () => {
    let state = openState;
    const waits = Array.from({ length: 9 }, (_, index) => {
      const now = at + index * minute;
      state = limited(state, refusal({ now, sentAt: now, random: 1 }));
      return (state.pausedUntil ?? 0) - now;
    });
    expect(waits).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60].map((seconds) => seconds * 1_000));
    expect(served(state, at).refusals).toBe(0);
  });

  it("does not go on asking a provider that always says now", () => {
    let state = openState;
    for (let times = 0; times < 10; times += 1)
      state = limited(state, refusal({ sentAt: at + times, retryAfterMs: 0, now: at + times }));
    expect((state.pausedUntil ?? 0) - at).toBeGreaterThan(10_000);
  });

  it("halves how many go at once, once for those that were refused together", () => {
    const first = limited(openState, refusal({ inFlight: 10 }));
    expect(first.concurrency).toBe(5);
    const together = limited(first, refusal({ now: at + 5, inFlight: 9 }));
    expect(together).toMatchObject({ concurrency: 5, refusals: 1 });
    const later = limited(together, refusal({ now: at + 2_000, sentAt: at + 1_500 }));
    expect(later).toMatchObject({ concurrency: 2, refusals: 2 });
    let least = later;
    for (let times = 3; times < 9; times += 1)
      least = limited(least, refusal({ now: at + times * 1_000, sentAt: at + times * 1_000 }));
    expect(least.concurrency).toBe(1);
  });

  it("takes no more at once than were found to be too few to refuse, and one more each time around", () => {
    let state: GateState = { ...openState, concurrency: 2, refusedAt: at };
    expect(admit(state, { now: at, held: 2, costMs: 0 })).toMatchObject({ reason: "pace" });
    passed(admit(state, { now: at, held: 1, costMs: 0 }));
    for (let replies = 0; replies < 5; replies += 1) state = served(state, at);
    expect(state.concurrency).toBe(4);
  });

  it("holds requests as far apart as replies came lately", () => {
    const state = limited(openState, refusal({ retryAfterMs: 1_000, servedWithin: () => 5 }));
    expect(state.intervalMs).toBe(200);
    const opens = state.pausedUntil ?? 0;
    const next = passed(admit(state, { now: opens, held: 0, costMs: 0 }));
    expect(admit(next, { now: opens + 199, held: 0, costMs: 0 })).toMatchObject({ until: opens + 200 });
    passed(admit(next, { now: opens + 200, held: 0, costMs: 0 }));
  });

  it("learns nothing of the pace from a refusal before any reply, nor from a pause of hours", () => {
    expect(limited(openState, refusal({ retryAfterMs: 1_000 })).intervalMs).toBe(0);
    const hours = refusal({ retryAfterMs: 7_200_000, servedWithin: () => 3 });
    expect(limited(openState, hours).intervalMs).toBe(0);
  });

  it("lets go of what it learned with replies, and after ten minutes", () => {
    let state: GateState = { ...openState, intervalMs: 200, concurrency: 1, refusedAt: at };
    state = served(state, at);
    expect(state.intervalMs).toBe(196);
    for (let replies = 0; replies < 400; replies += 1) state = served(state, at);
    expect(state.intervalMs).toBe(0);
    const old = { ...openState, intervalMs: 200, concurrency: 1, refusedAt: at };
    expect(isFree(passed(admit(old, { now: at + 10 * minute, held: 5, costMs: 0 })))).toBe(true);
  });

  it("is not slowed down for good by a service that refuses one request in fifteen, whatever the pace", () => {
    let state: GateState = { ...openState, intervalMs: 2_000, refusedAt: at };
    const replies: number[] = [];
    for (let request = 1, now = at; request <= 2_000; request += 1) {
      now = Math.max(now + 50, state.nextAt, state.pausedUntil ?? 0);
      state = passed(admit(state, { now, held: 0, costMs: 0 }));
      if (request % 15 > 0) {
        replies.push(now);
        state = served(state, now);
      } else {
        const servedWithin = (ms: number) => replies.filter((time) => time > now - ms).length;
        state = limited(state, refusal({ now: now + 1, sentAt: now, servedWithin }));
      }
    }
    expect(state.intervalMs).toBeLessThan(500);
  });

  it("keeps to what the user allows a minute, without a burst", () => {
    const state = passed(admit(openState, { now: at, held: 0, costMs: 600 }));
    expect(admit(state, { now: at + 599, held: 1, costMs: 600 })).toMatchObject({ until: at + 600 });
    passed(admit(state, { now: at + 600, held: 1, costMs: 600 }));
  });
});

describe("a quota that is used up", () => {
  it("shuts the gate until it is there again; then one request finds out for all", () => {
    const state = closed(openState, "quota", refusal({ retryAfterMs: 3_600_000 }));
    const opens = at + 3_600_000;
    expect(closedNow(state, opens - 1)).toEqual({ reason: "quota", note: "slow down", until: opens });
    const probing = passed(admit(state, { now: opens, held: 0, costMs: 0 }));
    expect(admit(probing, { now: opens, held: 1, costMs: 0 })).toMatchObject({ reason: "pace" });
    expect(served(probing, opens + 5)).toMatchObject({ reason: null, pausedUntil: null });
  });

  it("is looked at after a growing time, at most an hour, where nobody says when", () => {
    let state = openState;
    let now = at;
    const waits = Array.from({ length: 6 }, () => {
      state = closed(state, "quota", refusal({ now, sentAt: now }));
      const wait = (state.pausedUntil ?? 0) - now;
      now = state.pausedUntil ?? 0;
      return wait / minute;
    });
    expect(waits).toEqual([5, 10, 20, 40, 60, 60]);
  });

  it("is one piece of news for all that were sent together", () => {
    const first = closed(openState, "quota", refusal());
    expect(closed(first, "quota", refusal({ now: at + 5 }))).toEqual(first);
  });

  it("stays shut whatever an earlier request brings", () => {
    const state = closed(openState, "auth", refusal());
    expect(closedNow(served(state, at), at + 1e12)).toMatchObject({ reason: "auth", until: null });
    expect(closedNow(limited(state, refusal({ retryAfterMs: 1_000 })), at)).toMatchObject({ reason: "auth" });
  });
});
