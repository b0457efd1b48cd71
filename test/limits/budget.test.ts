import { describe, expect, it } from "vitest";
import { chargeOf, dayOf, dollars, endOfDay, refuse } from "../../src/limits/budget.ts";
import { noUsage } from "../../src/model/model.ts";

const budget = { scope: "task" as const, capMicro: 100, usedMicro: 60, capTokens: 1000, usedTokens: 900 };

describe("a budget", () => {
  it("suffices to the last micro-dollar and token, and not for one more", () => {
    expect(refuse(budget, { micro: 40, tokens: 100 })).toBeNull();
    expect(refuse(budget, { micro: 41, tokens: 1 })).toMatchObject({
      unit: "usd",
      cap: 100,
      used: 60,
      needed: 41,
    });
    expect(refuse(budget, { micro: 1, tokens: 101 })).toMatchObject({ unit: "tokens", cap: 1000, used: 900 });
  });

  it("in dollars never suffices where no price is known; one in tokens does", () => {
    expect(refuse(budget, { micro: null, tokens: 1 })).toMatchObject({ unit: "usd", needed: null });
    expect(refuse({ ...budget, capMicro: null }, { micro: null, tokens: 100 })).toBeNull();
  });

  it("without bounds always suffices", () => {
    expect(refuse({ ...budget, capMicro: null, capTokens: null }, { micro: 1e9, tokens: 1e9 })).toBeNull();
  });
});

describe("what an ended request is charged", () => {
  const reserved = { micro: 50, tokens: 500 };
  const usage = { ...noUsage, promptTokens: 100, completionTokens: 20 };

  it("is what it cost; the rest of its reservation is given back", () => {
    expect(chargeOf({ reserved, usage, costMicro: 12 })).toEqual({
      ...{ costMicro: 12, uncountedTokens: 0, deltaMicro: -38, deltaTokens: -380 },
    });
  });

  it("is the whole reservation where nobody counted", () => {
    expect(chargeOf({ reserved, usage: noUsage, costMicro: null })).toEqual({
      ...{ costMicro: 50, uncountedTokens: 500, deltaMicro: 0, deltaTokens: 0 },
    });
  });

  it("is unknown, not 0, where no price is known and nothing was reserved", () => {
    const nothing = { micro: null, tokens: null };
    expect(chargeOf({ reserved: nothing, usage, costMicro: null })).toEqual({
      ...{ costMicro: null, uncountedTokens: 0, deltaMicro: 0, deltaTokens: 120 },
    });
  });

  it("is more than the reservation where the provider took more", () => {
    expect(chargeOf({ reserved, usage, costMicro: 80 })).toMatchObject({ deltaMicro: 30 });
  });
});

it("the day of a budget is that of UTC and ends at its midnight", () => {
  const last = Date.parse("2026-03-29T23:59:59.999Z");
  expect([dayOf(last), dayOf(last + 1)]).toEqual(["2026-03-29", "2026-03-30"]);
  expect([endOfDay(last), endOfDay(last + 1)]).toEqual([last + 1, last + 1 + 86_400_000]);
});

it("people read small sums with more digits", () => {
  expect([0, 10_000, 1_250_000, 1_234_567, 4_210, 42].map(dollars)).toEqual([
    ...["$0.00", "$0.01", "$1.25", "$1.23", "$0.0042", "$0.000042"],
  ]);
});
