import { describe, expect, it } from "vitest";
import { nativeProtocol } from "../../../src/agent/protocols/native.ts";
import { loadPrompt } from "../../../src/agent/protocols/prompt.ts";
import { profileOf } from "../../../src/model/profiles.ts";

describe("the system prompt", () => {
  it("says how to act, how to end and that cd does not last, and holds nothing that changes between runs", async () => {
    const prompt = await loadPrompt("native");
    expect(prompt).toContain("working directory");
    expect(prompt).toContain("do not last from one command to the next");
    expect(prompt).toContain("reply without any tool call");
    expect(prompt).not.toMatch(/\{\{|\n$/);
    expect(prompt.length).toBeLessThan(4_000);
  });

  it("lists the tools where a template of the user's asks for them", () => {
    const tools = [{ name: "bash", description: "costs $& nothing", parameters: {} }];
    const { systemPrompt } = nativeProtocol(profileOf(""));
    expect(systemPrompt("Tools:\n{{tools}}\nand {{other}}", tools)).toBe(
      "Tools:\n- bash: costs $& nothing\nand {{other}}",
    );
  });
});
