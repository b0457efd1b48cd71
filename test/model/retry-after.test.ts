import { describe, expect, test } from "vitest";
import { isLimitStatus, retryAfterMs } from "../../src/model/retry-after.ts";

const now = Date.parse("2026-03-01T12:00:00Z");
const day = 86_400_000;

describe("the wait that a provider asks for", () => {
  test.each<[Record<string, string>, number | undefined]>([
    [{ "retry-after": "7" }, 7_000],
    [{ "retry-after": "0.5" }, 500],
    [{ "retry-after": "Sun, 01 Mar 2026 12:00:30 GMT" }, 30_000],
    [{ "retry-after": "Sun, 01 Mar 2026 11:00:00 GMT" }, 0],
    [{ "retry-after-ms": "250", "retry-after": "7" }, 250],
    [{ "x-ratelimit-reset-requests": "1s" }, 1_000],
    [{ "x-ratelimit-reset-tokens": "6m0s" }, 360_000],
    [{ "x-ratelimit-reset-requests": "1h2m3.5s" }, 3_723_500],
    [{ "x-ratelimit-reset-requests": "20ms" }, 20],
    [{ "x-ratelimit-reset": String(now / 1_000 + 90) }, 90_000],
    [{ "x-ratelimit-reset": String(now + 90_000) }, 90_000],
    [{ "retry-after": "3", "x-ratelimit-reset": "600" }, 3_000],
    [{ "x-ratelimit-reset-requests": "2s", "x-ratelimit-reset-tokens": "5m" }, 2_000],
    [
      {
        "x-ratelimit-reset-requests": "2s",
        "x-ratelimit-remaining-requests": "9",
        "x-ratelimit-reset-tokens": "5m",
        "x-ratelimit-remaining-tokens": "0",
      },
      300_000,
    ],
    [{ "retry-after": "999999999" }, day],
    [{ "retry-after": "Fri, 31 Dec 9999 23:59:59 GMT" }, day],
    [{ "retry-after": "-1" }, undefined],
    [{ "retry-after": "soon" }, undefined],
    [{ "retry-after": "" }, undefined],
    [{ "retry-after-ms": "later", "retry-after": "2" }, 2_000],
    [{}, undefined],
  ])("%j is %s ms", (headers, expected) => {
    expect(retryAfterMs(new Headers(headers), now)).toBe(expected);
  });

  test("the limits that a service sends with every response say nothing of a failure that is none of a limit", () => {
    const headers = new Headers({
      "x-ratelimit-reset-requests": "6ms",
      "x-ratelimit-remaining-requests": "9",
    });
    expect([retryAfterMs(headers, now), retryAfterMs(headers, now, false)]).toEqual([6, undefined]);
    headers.set("retry-after", "2");
    expect(retryAfterMs(headers, now, false)).toBe(2_000);
  });

  test("too much is asked at 429 and 529, and at a 503 that says for how long", () => {
    expect([429, 529, 503, 500, 400].map((status) => isLimitStatus(status, undefined))).toEqual([
      true,
      true,
      false,
      false,
      false,
    ]);
    expect(isLimitStatus(503, 1)).toBe(true);
  });
});
