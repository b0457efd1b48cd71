import { describe, expect, it } from "vitest";
import { nextOpening, openingHours, parseHours, parseTime } from "../../src/limits/hours.ts";

function opening(text: string, now: string): string {
  const hours = parseHours(text);
  if (!hours) throw new Error(`expected hours, got ${text}`);
  return new Date(nextOpening(hours, Date.parse(now))).toISOString();
}

describe("allowed hours", () => {
  it("open now where it is within them, also over midnight", () => {
    for (const now of ["2026-01-10T22:00:00.000Z", "2026-01-11T00:30:12.345Z", "2026-01-11T05:59:59.999Z"])
      expect(opening("22:00-06:00 UTC", now)).toBe(now);
    expect(opening("9:00-17:00 UTC", "2026-01-10T12:00:00.000Z")).toBe("2026-01-10T12:00:00.000Z");
  });

  it("open next at their begin, to the minute", () => {
    expect(opening("22:00-06:00 UTC", "2026-01-10T06:00:00.000Z")).toBe("2026-01-10T22:00:00.000Z");
    expect(opening("22:00-06:00 UTC", "2026-01-10T21:59:30.500Z")).toBe("2026-01-10T22:00:00.000Z");
    expect(opening("09:15-17:00 UTC", "2026-01-10T17:00:00.000Z")).toBe("2026-01-11T09:15:00.000Z");
  });

  it("follow the clock of their zone when it is changed", () => {
    // Berlin goes from +1 to +2 on 29 March 2026 at 01:00 UTC, and back on 25 October at 01:00 UTC.
    expect(opening("22:00-06:00 Europe/Berlin", "2026-03-28T12:00:00.000Z")).toBe("2026-03-28T21:00:00.000Z");
    expect(opening("22:00-06:00 Europe/Berlin", "2026-03-29T12:00:00.000Z")).toBe("2026-03-29T20:00:00.000Z");
    expect(opening("08:00-09:00 Europe/Berlin", "2026-03-28T20:00:00.000Z")).toBe("2026-03-29T06:00:00.000Z");
    expect(opening("08:00-09:00 Europe/Berlin", "2026-10-24T20:00:00.000Z")).toBe("2026-10-25T07:00:00.000Z");
  });

  it("open when the clock jumps over their begin", () => {
    expect(opening("02:30-05:00 Europe/Berlin", "2026-03-29T00:00:00.000Z")).toBe("2026-03-29T01:00:00.000Z");
  });

  it("come a day later where the jump leaves nothing of them", () => {
    expect(opening("02:10-02:50 Europe/Berlin", "2026-03-28T20:00:00.000Z")).toBe("2026-03-30T00:10:00.000Z");
  });

  it("are refused where they say nothing sensible", () => {
    for (const text of [
      "",
      "22:00",
      "22-06",
      "25:00-06:00",
      "22:60-06:00",
      "06:00-06:00",
      "22:00-06:00 Mars/Base",
    ])
      expect(parseHours(text), text).toBeUndefined();
    for (const text of ["", "5", "24:01", "-1:00"]) expect(parseTime(text), text).toBeUndefined();
    expect(parseTime("24:00")).toBe(0);
  });
});

describe("the latest start", () => {
  it("shortens the hours in which something may begin, and no others", () => {
    const hours = openingHours({ allowedHours: "22:00-06:00 UTC", latestStart: "05:00" });
    expect(hours.starts).toEqual({ from: 22 * 60, to: 5 * 60, zone: "UTC" });
    expect(hours.requests).toEqual({ from: 22 * 60, to: 6 * 60, zone: "UTC" });
  });

  it("counts from midnight where no hours are said", () => {
    expect(openingHours({ latestStart: "18:00" })).toEqual({
      requests: null,
      starts: { from: 0, to: 18 * 60 },
    });
  });

  it("is refused outside of the hours", () => {
    expect(() => openingHours({ allowedHours: "22:00-06:00", latestStart: "12:00" })).toThrow(
      "expected latestStart to be within the allowed hours, got 12:00 with 22:00-06:00",
    );
  });
});
