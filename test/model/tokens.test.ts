import { describe, expect, it } from "vitest";
import { estimateMessageTokens, estimateTokens } from "../../src/model/tokens.ts";
import { contextWindowOf } from "../../src/model/windows.ts";

describe("estimateTokens", () => {
  it("takes prose at about four characters a token", () => {
    const text = "The quick brown fox jumps over the lazy dog and then goes home ".repeat(50);
    expect(estimateTokens(text) / text.length).toBeCloseTo(1 / 4, 2);
  });

  it("takes Chinese at about a token a character, and other alphabets between", () => {
    expect(estimateTokens("列出当前目录的文件")).toBe(9);
    expect(estimateTokens("привет")).toBe(3);
    expect(estimateTokens("🔍")).toBe(2);
  });

  it("takes code and JSON as denser than prose", () => {
    expect(estimateTokens('{"a":[1,2,{"b":null}]}')).toBeGreaterThan(22 / 3);
  });

  it("is zero for nothing and counts every character's share", () => {
    expect(estimateTokens("")).toBe(0);
    expect(estimateTokens("a")).toBe(1);
  });

  it("stays close to the whole where it samples a long text, also one that changes midway", () => {
    const text = "word ".repeat(100_000) + "字".repeat(500_000);
    const whole = 125_000 + 500_000;
    expect(Math.abs(estimateTokens(text) - whole) / whole).toBeLessThan(0.1);
  });

  it("costs no more for a text of 20 MB than for one of 64 kB, within a factor of ten", () => {
    const time = (text: string) => {
      const start = performance.now();
      estimateTokens(text);
      return performance.now() - start;
    };
    const best = (text: string) => Math.min(...Array.from({ length: 50 }, () => time(text)));
    const short = best("x".repeat(65_536));
    expect(best("x".repeat(20_000_000))).toBeLessThan(10 * short);
  });

  it("counts the calls and the overhead of a message", () => {
    const bare = estimateMessageTokens({ role: "assistant", content: "hi" });
    const tool_calls = [
      { id: "c1", type: "function" as const, function: { name: "bash", arguments: "x".repeat(4_000) } },
    ];
    expect(bare).toBeGreaterThan(4);
    expect(estimateMessageTokens({ role: "assistant", content: "hi", tool_calls })).toBeGreaterThan(
      bare + 1_000,
    );
  });
});

describe("contextWindowOf", () => {
  it.each([
    ["gpt-4o-mini", 128_000],
    ["gpt-4", 8_192],
    ["gpt-4.1-mini", 1_047_576],
    ["openai/gpt-4.1", 1_047_576],
    ["gpt-5-mini", 400_000],
    ["o3-mini", 200_000],
    ["anthropic/claude-sonnet-4.5", 200_000],
    ["llama3:8b", 8_192],
    ["llama3.1:8b", 128_000],
    ["nobody/knows-this", 128_000],
  ])("of %s is %d", (model, tokens) => {
    expect(contextWindowOf(model)).toBe(tokens);
  });
});
