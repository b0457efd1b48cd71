import { describe, expect, it } from "vitest";
import { createProtocol } from "../../../src/agent/protocols/create.ts";
import { loadPrompt, systemPrompt } from "../../../src/agent/protocols/prompt.ts";
import { profileOf } from "../../../src/model/profiles.ts";
import { type ProtocolName, protocolNames } from "../../../src/protocol-name.ts";
import { builtInTools } from "../../../src/tools/built-in.ts";

const protocolOf = (name: ProtocolName) => createProtocol(name, profileOf(""));

async function promptOf(name: ProtocolName, template?: string): Promise<string> {
  const tools = builtInTools();
  return systemPrompt({
    protocol: protocolOf(name),
    template: template ?? (await loadPrompt("agent")),
    tools: name === "bash-block" ? tools.filter((tool) => tool.name === "bash") : tools,
  });
}

/** How each says that a task ends. */
const endings: Record<ProtocolName, RegExp> = {
  native: /reply without any tool call/,
  "bash-block": /run the command `exit`/,
  react: /All that follows "Final Answer:" is the result/,
};

describe("the system prompt", () => {
  it.each(protocolNames)(
    "of %s says how to act, how to end and that cd does not last, and holds nothing that changes between runs",
    async (name) => {
      const prompt = await promptOf(name);
      expect(prompt).toContain("working directory");
      expect(prompt).toContain("do not last from one command to the next");
      expect(prompt).toMatch(endings[name]);
      expect(prompt).not.toMatch(/\{\{|\n$/);
      expect((await promptOf(name, "{{protocol}}")).length).toBeLessThan(4_500);
    },
  );

  it("of a text protocol holds examples that are read as what they show", async () => {
    const read = (name: ProtocolName, content: string) =>
      protocolOf(name).readReply(
        { message: { role: "assistant", content }, finishReason: "stop", usage, responseId: null },
        { step: 1, tools: builtInTools() },
      );
    const [, example = "", ending = ""] = (await loadPrompt("bash-block")).split("For example:\n\n");
    const action = example.slice(0, example.indexOf("\n\nOnly that block"));
    expect(read("bash-block", action)).toMatchObject({
      calls: [{ name: "bash", argumentsText: '{"command":"ls -la"}' }],
    });
    expect(read("bash-block", ending)).toMatchObject({
      kind: "answer",
      text: expect.stringMatching(/^The test passes now/),
    });
    const react = await loadPrompt("react");
    const look = react.slice(react.indexOf("Thought: I look"), react.indexOf("The tools:"));
    expect(read("react", look)).toMatchObject({ kind: "calls", calls: [{ name: "bash" }] });
    expect(read("react", react.slice(react.lastIndexOf("Thought:")))).toMatchObject({ kind: "answer" });
  });

  it("lists the tools where a template of the user's asks for them", async () => {
    const tools = [{ name: "bash", description: "costs $& nothing", parameters: {} }];
    const template = "Tools:\n{{tools}}\nand {{other}}";
    expect(await systemPrompt({ protocol: protocolOf("native"), template, tools })).toBe(
      "Tools:\n- bash: costs $& nothing\nand {{other}}",
    );
  });

  it("of the user's own teaches a text protocol where it asks for it, else at its end; native calls need none", async () => {
    const guide = await loadPrompt("bash-block");
    expect(await promptOf("bash-block", "Be brief.\n{{protocol}}\nBe kind.")).toBe(
      `Be brief.\n${guide}\nBe kind.`,
    );
    expect(await promptOf("bash-block", "Be brief.\n")).toBe(`Be brief.\n\n${guide}`);
    expect(await promptOf("native", "Be brief.\n")).toBe("Be brief.\n");
  });

  it("of ReAct tells the parameters of every tool in a form that can be read", async () => {
    const prompt = await promptOf("react", "");
    expect(prompt).toContain('Action Input: {"path": string');
    expect(prompt).toMatch(/"timeoutMs"\?: number \(Time limit in milliseconds, at most \d+\)/);
  });
});

const usage = { promptTokens: null, completionTokens: null, cachedTokens: null, reasoningTokens: null };
