import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { costOf, findPrice, isListed, type Price, worstCostOf } from "../../src/limits/prices.ts";

const openai = "https://api.openai.com/v1";
const find = (model: string, baseUrl: string | null, own = {}) => findPrice(model, { baseUrl, own });
const usage = (promptTokens: number | null, completionTokens: number | null, more: object = {}) => ({
  ...{ promptTokens, completionTokens, cachedTokens: null, reasoningTokens: null },
  ...more,
});

describe("the price of a model", () => {
  it("is found at the vendor's own host, in micro-dollars for a million tokens", () => {
    expect(find("gpt-4o-mini", openai)).toEqual({ input: 150_000, cachedInput: 75_000, output: 600_000 });
    expect(find("gpt-4", openai)).toEqual({ input: 30_000_000, cachedInput: 30_000_000, output: 60_000_000 });
    expect(find("deepseek-chat", "https://api.deepseek.com")).toMatchObject({ cachedInput: 28_000 });
  });

  it("is the same for a dated name, unless the list has that date", () => {
    expect(find("gpt-4o-mini-2024-07-18", openai)).toEqual(find("gpt-4o-mini", openai));
    expect(find("claude-opus-4-1-20250805", "https://api.anthropic.com/v1")).not.toBeNull();
    expect(find("gpt-4o-2024-05-13", openai)).not.toEqual(find("gpt-4o", openai));
  });

  it("is found under a router's name for models that cost the same there, and for no open ones", () => {
    const router = "https://openrouter.ai/api/v1";
    const anthropic = "https://api.anthropic.com/v1";
    expect(find("anthropic/claude-opus-4.5", router)).toEqual(find("claude-opus-4-5", anthropic));
    expect(find("qwen/qwen3-32b", router)).toBeNull();
    expect(find("qwen/qwen3-32b", "https://api.groq.com/openai/v1")).not.toBeNull();
  });

  it("is unknown for models, versions and hosts that nobody listed, never 0", () => {
    for (const model of ["gpt-9", "gpt-4o-mini-9", "my-model", "", "constructor"]) {
      expect(find(model, openai)).toBeNull();
    }
    for (const host of ["http://localhost:11434/v1", "https://notopenai.com/v1", "https://x.test", null]) {
      expect(find("gpt-4o-mini", host)).toBeNull();
    }
    expect([isListed("gpt-4o-mini"), isListed("my-model")]).toEqual([true, false]);
  });

  it("is the user's own where there is one, 0 too", () => {
    const own = { "gpt-4o-mini": { input: 1, output: 2 }, "local/qwen": { input: 0, output: 0 } };
    expect(find("gpt-4o-mini", openai, own)).toEqual({
      ...{ input: 1_000_000, cachedInput: 1_000_000, output: 2_000_000 },
    });
    expect(find("local/qwen", "http://localhost:1/v1", own)).toMatchObject({ input: 0, output: 0 });
    expect(find("other/qwen", "http://localhost:1/v1", own)).toBeNull();
  });
});

describe("the cost of a reply", () => {
  const price: Price = {
    ...{ input: 3_000_000, cachedInput: 300_000, output: 15_000_000 },
    above: { promptTokens: 1000, input: 6_000_000, cachedInput: 600_000, output: 30_000_000 },
  };

  it("counts cached tokens at their price and rounds up to a whole micro-dollar", () => {
    expect(costOf(price, usage(100, 10, { cachedTokens: 90 }))).toBe(30 + 27 + 150);
    expect(costOf({ input: 1, cachedInput: 1, output: 1 }, usage(1, 0))).toBe(1);
    expect(costOf({ input: 0, cachedInput: 0, output: 0 }, usage(5, 5))).toBe(0);
  });

  it("is exact for sums beyond what floating point holds", () => {
    const dear = { input: 600_000_000, cachedInput: 0, output: 0 };
    expect(costOf(dear, usage(99_999_999, 0))).toBe(59_999_999_400);
  });

  it("takes the price of long prompts for all tokens of a long one", () => {
    expect(costOf(price, usage(1000, 0))).toBe(3000);
    expect(costOf(price, usage(1001, 1))).toBe(6006 + 30);
  });

  it("is unknown where the provider did not count", () => {
    expect(costOf(price, usage(null, 10))).toBeNull();
    expect(costOf(price, usage(10, null))).toBeNull();
  });

  it("counts reasoning that was counted beside the reply", () => {
    expect(costOf(price, usage(0, 10, { reasoningTokens: 8 }))).toBe(150);
    expect(costOf(price, usage(0, 10, { reasoningTokens: 100 }))).toBe(1650);
  });

  it("is never more than the worst case that was set aside", () => {
    const tokens = fc.nat(5000);
    fc.assert(
      fc.property(
        tokens,
        tokens,
        tokens,
        fc.nat(5000),
        fc.nat(5000),
        (prompt, more, output, cached, less) => {
          const worst = worstCostOf(price, { promptTokens: prompt + more, outputTokens: output });
          const used = usage(prompt, Math.max(0, output - less), { cachedTokens: cached });
          expect(costOf(price, used)).toBeLessThanOrEqual(worst);
        },
      ),
    );
  });
});
