import { describe, expect, it } from "vitest";
import { ModelError } from "../../src/errors.ts";
import { delayBefore, retryDefaults } from "../../src/limits/retry.ts";

const policy = { ...retryDefaults, baseDelayMs: 100, maxDelayMs: 20_000, random: () => 0 };
const fault = (retryAfterMs?: number) => new ModelError("retry", "busy", { retryAfterMs });
const attempts = [1, 2, 3, 4];

describe("the wait before a request is made again", () => {
  it("doubles each time, between half of the back-off and the whole, up to a bound", () => {
    const delays = (random: number, maxDelayMs = 20_000) =>
      attempts.map((attempt) =>
        delayBefore(fault(), attempt, { ...policy, maxDelayMs, random: () => random }),
      );
    expect(delays(0)).toEqual([50, 100, 200, 400]);
    expect(delays(0.999)).toEqual([100, 200, 400, 800]);
    expect(delays(0, 200)).toEqual([50, 100, 100, 100]);
  });

  it("is as long as asked and a little more, but never beyond the bound", () => {
    const asked = (retryAfterMs: number) =>
      delayBefore(fault(retryAfterMs), 1, { ...policy, random: () => 0.5 });
    expect([asked(3_000), asked(3_600_000)]).toEqual([3_150, 20_000]);
  });

  it("is no shorter than the back-off where next to none is asked for", () => {
    const asked = attempts.map((attempt) => delayBefore(fault(6), attempt, policy));
    expect(asked).toEqual([50, 100, 200, 400]);
  });

  it("ends with the last attempt", () => {
    expect(delayBefore(fault(), 7, policy)).toBeGreaterThan(0);
    expect(delayBefore(fault(), 8, policy)).toBeUndefined();
  });

  it("is for a quota that comes back soon, not for one that does not or will not say", () => {
    const quota = (retryAfterMs?: number) =>
      delayBefore(new ModelError("quota", "no more", { retryAfterMs }), 1, policy);
    expect([quota(5_000), quota(3_600_000), quota()]).toEqual([5_000, undefined, undefined]);
  });

  it.each(["overflow", "refused", "invalid", "auth"] as const)(
    "is none after a failure of kind %s",
    (kind) => {
      expect(delayBefore(new ModelError(kind, kind), 1, policy)).toBeUndefined();
    },
  );
});
