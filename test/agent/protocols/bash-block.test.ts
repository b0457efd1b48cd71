import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { bashBlockProtocol } from "../../../src/agent/protocols/bash-block.ts";
import type { ParsedReply } from "../../../src/agent/protocols/protocol.ts";
import type { ReplyMessage } from "../../../src/model/model.ts";

const protocol = bashBlockProtocol();
const usage = { promptTokens: null, completionTokens: null, cachedTokens: null, reasoningTokens: null };

function read(content: unknown, finishReason: string | null = "stop", others: object = {}): ParsedReply {
  const message = { role: "assistant", content, ...others } as ReplyMessage;
  return protocol.readReply({ message, finishReason, usage, responseId: null }, { step: 3, tools: [] });
}

/** The command of a reply that has one. */
function commandOf(parsed: ParsedReply): string | undefined {
  if (parsed.kind !== "calls") return undefined;
  expect(parsed.calls).toMatchObject([{ name: "bash", wireId: "call_3_1" }]);
  return JSON.parse(parsed.calls[0]?.argumentsText ?? "{}").command;
}

const block = (body: string, mark = "```", label = "bash-action") => `${mark}${label}\n${body}\n${mark}`;

describe("a command", () => {
  it.each<[string, string, string]>([
    ["a fenced block", block("ls -la"), "ls -la"],
    ["several lines", block("cd sub\n\nmake"), "cd sub\n\nmake"],
    ["with words before and behind", `I look.\n\n${block("ls")}\n\nThen I go on.`, "ls"],
    ["without a blank line before it", `I look.\n${block("ls")}`, "ls"],
    ["behind a block in another language", `${block("x = 1", "```", "python")}\n${block("ls")}`, "ls"],
    ["a label in capitals and blanks", `\`\`\`  Bash-Action  \nls\n\`\`\`  `, "ls"],
    ["an underscore in the label", block("ls", "```", "bash_action"), "ls"],
    ["words behind the label", block("ls", "```", "bash-action run"), "ls"],
    ["tildes", block("ls", "~~~"), "ls"],
    ["longer fences", block('echo "```"', "````"), 'echo "```"'],
    [
      "a fence line within a longer fence",
      block("cat <<E\n```\nx\n```\nE", "````"),
      "cat <<E\n```\nx\n```\nE",
    ],
    ["a backtick fence line within tildes", block("cat <<E\n```\nE", "~~~"), "cat <<E\n```\nE"],
    ["a closing fence that is longer", "```bash-action\nls\n`````", "ls"],
    [
      "an opening fence in it, closed by the real one",
      block("cat <<E > a\n```js\nE"),
      "cat <<E > a\n```js\nE",
    ],
    [
      "an indented block",
      "- so:\n\n  ```bash-action\n  if true; then\n    ls\n  fi\n  ```",
      "if true; then\n  ls\nfi",
    ],
    ["carriage returns throughout", "```bash-action\r\nls\r\nls\r\n```\r\n", "ls\nls"],
    ["white space that means something", block("\tprintf 'a\\tb'  "), "\tprintf 'a\\tb'  "],
    ["an element", "I look.\n<bash_action>\nls -la\n</bash_action>", "ls -la"],
    ["an element on one line", "I look: <bash_action>ls | wc -l</bash_action> Good.", "ls | wc -l"],
    [
      "an element with attributes and blank lines",
      '<bash_action timeout="5" >\n\n  \nls\n\n</bash_action >',
      "ls",
    ],
    ["an element with a hyphen", "<bash-action>ls</bash-action>", "ls"],
    ["an element in capitals", "<BASH_ACTION>ls</BASH_ACTION>", "ls"],
    [
      "an element with markup in it, not decoded",
      "<bash_action>a < b && echo '&lt;'</bash_action>",
      "a < b && echo '&lt;'",
    ],
    [
      "an element with fences in it",
      "<bash_action>\ncat <<E\n```\nx\n```\nE\n</bash_action>",
      "cat <<E\n```\nx\n```\nE",
    ],
    ["an element within a fenced block", block("<bash_action>\nls\n</bash_action>"), "ls"],
    [
      "a fenced block within an element",
      `<bash_action>\n${block("ls", "```", "bash")}\n</bash_action>`,
      "ls",
    ],
    ["a fenced block behind a quoted element", `I use \`<bash_action>\`.\n${block("ls")}`, "ls"],
    ["reasoning before it", `<think>maybe ${block("rm -r out")}</think>\n${block("ls")}`, "ls"],
    ["reasoning in the middle", `So.\n<think>\n${block("rm -r out")}\n</think>\n${block("ls")}`, "ls"],
    [
      "a block quoted in a longer one",
      `${block(block("rm -r out"), "````", "markdown")}\n${block("ls")}`,
      "ls",
    ],
    ["exit with more to it", block("make && exit"), "make && exit"],
    ["exit with a code of failure", block("exit 1"), "exit 1"],
  ])("is read: %s", (_what, content, command) => {
    expect(commandOf(read(content))).toBe(command);
  });

  it("goes with what is said around it", () => {
    expect(read(`I look.\n\n${block("ls")}\nThen on.`)).toMatchObject({
      kind: "calls",
      text: "I look.\n\nThen on.",
    });
  });

  it("is read from the text parts of a reply alone", () => {
    const parts = [
      { type: "thinking", thinking: [{ type: "text", text: block("rm -r out") }] },
      { type: "text", text: "I look.\n```bash-act" },
      { type: "text", text: "ion\nls\n```" },
    ];
    expect(commandOf(read(parts))).toBe("ls");
    expect(read(null, "stop", { reasoning_content: block("rm -r out") })).toMatchObject({ kind: "bad" });
  });

  it("comes back whatever it holds, in a fence that is long enough", () => {
    const parts = fc.constantFrom(
      "```",
      "~~~",
      "````",
      "\n",
      "bash-action",
      "<bash_action>",
      "</bash_action>",
      " ",
      "EOF",
    );
    const text = fc.array(fc.oneof(parts, fc.string()), { maxLength: 12 }).map((list) => `x${list.join("")}`);
    fc.assert(
      fc.property(
        text,
        fc.string({ unit: "grapheme" }).map((said) => said.replace(/[`~<\n]/g, "")),
        (command, said) => {
          const longest = Math.max(2, ...[...command.matchAll(/`+/g)].map(([run]) => run.length));
          const reply = read(`${said}\n${block(command, "`".repeat(longest + 1))}`);
          expect(commandOf(reply)).toBe(command);
        },
      ),
      { numRuns: 500 },
    );
  });
});

describe("nothing is run and the model is told", () => {
  it.each<[string, string, RegExp]>([
    ["no command", "The answer is 7.", /held no command.*the task goes on/],
    ["nothing at all", " \n", /was empty/],
    ["only a thought", `<think>${block("ls")}</think>`, /was empty/],
    ["a thought that does not end", `<think>${block("ls")}`, /was empty/],
    ["two blocks", `${block("ls")}\n${block("pwd")}`, /more than one command/],
    ["two elements", "<bash_action>ls</bash_action><bash_action>pwd</bash_action>", /more than one command/],
    ["a block and an element", `${block("ls")}\n<bash_action>pwd</bash_action>`, /more than one command/],
    ["a block labelled bash", block("ls", "```", "bash"), /another name than bash-action/],
    ["a block labelled sh", block("ls", "```", "sh"), /another name than bash-action/],
    ["a block without a label", block("ls", "```", ""), /held no command/],
    ["a label that only begins like it", block("ls", "```", "bash-actions"), /held no command/],
    ["a block that does not end", "```bash-action\nls", /does not end/],
    ["a block whose end is not alone on its line", "```bash-action\nls ```", /does not end/],
    ["a block closed by a shorter fence", "````bash-action\nls\n```", /does not end/],
    ["a block closed by another kind", "```bash-action\nls\n~~~", /does not end/],
    ["an element that does not end", "<bash_action>ls", /does not end/],
    ["an element closed by a fence", "<bash_action>\nls\n```", /does not end/],
    ["an empty block", block(" "), /empty block/],
    ["an empty element", "<bash_action> </bash_action>", /empty block/],
    [
      "a heredoc with a block in it",
      block("cat > README.md <<'EOF'\n# Demo\n```bash\nnpm test\n```\nEnd.\nEOF\necho written"),
      /longer fence/,
    ],
    [
      "a heredoc with a plain block in it",
      block("cat > README.md <<'EOF'\n# Demo\n```\nnpm test\n```\nEnd.\nEOF"),
      /longer fence/,
    ],
    [
      "an element with a closing tag in its text",
      "<bash_action>echo '</bash_action>'\nrm a</bash_action>",
      /longer fence/,
    ],
    [
      "another block behind the command",
      `${block("ls")}\nIt will print\n${block("a", "```", "")}`,
      /longer fence/,
    ],
    ["a block in a quotation", block(block("ls"), "````", "markdown"), /held no command/],
    ["an element in a code span", "Use `<bash_action>ls</bash_action>` to act.", /held no command/],
    ["markup of another interface", '<tool_call>{"name":"bash"}</tool_call>', /held no command/],
    ["the labels of another protocol", "Action: bash\nAction Input: ls\nFinal Answer: 7", /held no command/],
    ["an end without a result", block("exit"), /without a result/],
    ["an end beside a command", `${block("ls")}\n${block("exit")}`, /more than one command/],
  ])("%s", (_what, content, problem) => {
    const parsed = read(content);
    expect(parsed).toMatchObject({ kind: "bad", problem: expect.stringMatching(problem) });
    expect(parsed).toMatchObject({ problem: expect.stringContaining("```bash-action\nexit\n```") });
    expect(parsed).toMatchObject({ problem: expect.stringContaining("```bash-action\nls -la\n```") });
  });

  it("a call through the tool interface, even beside a command", () => {
    const tool_calls = [{ id: "1", type: "function", function: { name: "bash", arguments: "{}" } }];
    for (const content of [null, block("ls")])
      expect(read(content, "tool_calls", { tool_calls })).toMatchObject({
        kind: "bad",
        problem: expect.stringContaining("tool interface"),
      });
    expect(commandOf(read(block("ls"), "stop", { tool_calls: [] }))).toBe("ls");
  });

  it.each([block("ls"), "```bash-action\nls", "I will", "", block("exit")])(
    "a reply that the output limit cut, whole commands in it included: %j",
    (content) => {
      expect(read(`So.\n${content}`, "length")).toMatchObject({
        kind: "bad",
        problem: expect.stringContaining("cut off by the output limit"),
      });
    },
  );

  it("a refusal, which ends the run", () => {
    expect(read(null, "stop", { refusal: "No." })).toEqual({ kind: "refused", text: "No." });
    expect(read(block("ls"), "content_filter")).toMatchObject({ kind: "refused" });
  });

  it("whatever comes: no text makes it throw, and every problem comes with the form", () => {
    const parts = fc.constantFrom(
      "```",
      "````",
      "~~~",
      "bash-action",
      "\n",
      "<bash_action>",
      "</bash_action>",
      "<think>",
      "</think>",
      "exit",
      "`",
      " ",
    );
    fc.assert(
      fc.property(fc.array(fc.oneof(parts, fc.string()), { maxLength: 20 }), (list) => {
        const parsed = read(list.join(""));
        if (parsed.kind === "bad") expect(parsed.problem).toContain("```bash-action\nls -la\n```");
        if (parsed.kind === "answer") expect(parsed.text.trim()).not.toBe("");
        if (parsed.kind === "calls") expect(commandOf(parsed)?.trim()).not.toBe("");
      }),
      { numRuns: 2000 },
    );
  });
});

describe("the end", () => {
  it.each([
    ["Done: 7.\n\n```bash-action\nexit\n```", "Done: 7."],
    ["Done: 7. <bash_action>exit 0</bash_action>", "Done: 7."],
    ["```bash-action\nexit;\n```\nDone: 7.", "Done: 7."],
    [
      "The fix:\n```js\nlet a;\n```\nTests pass.\n```bash-action\nexit\n```",
      "The fix:\n```js\nlet a;\n```\nTests pass.",
    ],
  ])("is the command exit, and the result what the reply says beside it: %j", (content, text) => {
    expect(read(content)).toEqual({ kind: "answer", text });
  });
});

describe("what is sent", () => {
  it("is text alone: a reply goes back without its thoughts and unknown members", () => {
    const message = {
      role: "assistant" as const,
      content: `<think>hm</think>\nI look.\n${block("ls")}`,
      x: 1,
      reasoning_content: "r",
    };
    expect(protocol.renderReply(message, ["call_3_1"])).toEqual({
      role: "assistant",
      content: `I look.\n${block("ls")}`,
    });
    expect(protocol.renderReply({ role: "assistant", content: null }, [])).toEqual({
      role: "assistant",
      content: "(no text)",
    });
    expect(protocol.requestTools([{ name: "bash", description: "", parameters: {} }])).toEqual([]);
  });

  it("is a user message for every output, never blank and an error marked as one", () => {
    const render = (content: string, isError = false) =>
      protocol.renderResult({ wireId: "c", content, isError });
    expect(render("a\nb")).toEqual({ role: "user", content: "Output of your command:\na\nb" });
    expect(render(" ").content).toBe("Output of your command:\n(no output)");
    expect(render("exit code 1", true).content).toBe("Output of your command:\nError: exit code 1");
    expect(protocol.renderNote("go")).toEqual({ role: "user", content: "go" });
  });
});
