import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ParsedReply } from "../../../src/agent/protocols/protocol.ts";
import { reactProtocol } from "../../../src/agent/protocols/react.ts";
import type { ReplyMessage } from "../../../src/model/model.ts";
import { builtInTools } from "../../../src/tools/built-in.ts";

const protocol = reactProtocol();
const usage = { promptTokens: null, completionTokens: null, cachedTokens: null, reasoningTokens: null };
const text = { type: "string" };
const schema = (properties: object, required?: string[]) => ({
  type: "object",
  properties,
  ...(required && { required }),
});
const tools = [
  ...builtInTools(),
  { name: "weather", description: "", parameters: schema({ city: text }) },
  { name: "count", description: "", parameters: schema({ n: { type: "integer" } }, ["n"]) },
  { name: "python", description: "", parameters: schema({ code: text }, ["code"]) },
];

function read(content: unknown, finishReason: string | null = "stop", others: object = {}): ParsedReply {
  const message = { role: "assistant", content, ...others } as ReplyMessage;
  return protocol.readReply({ message, finishReason, usage, responseId: null }, { step: 3, tools });
}

/** Name and arguments of a reply that has an action. */
function actionOf(parsed: ParsedReply): [string, unknown] | undefined {
  if (parsed.kind !== "calls") return undefined;
  expect(parsed.calls).toMatchObject([{ wireId: "call_3_1" }]);
  const [call] = parsed.calls;
  return [call?.name ?? "", JSON.parse(call?.argumentsText ?? "null")];
}

const sentBack = (content: string) => protocol.renderReply({ role: "assistant", content }, []).content;
const hi = { command: "echo hi" };
const echo = '{"command":"echo hi"}';

describe("an action", () => {
  it.each<[string, string, string, unknown]>([
    ["as it should be", `Thought: t\nAction: bash\nAction Input: ${echo}`, "bash", hi],
    ["without a thought", `Action: bash\nAction Input: ${echo}`, "bash", hi],
    [
      "with blank lines between",
      `Thought: t\n\n\nAction: bash\n\n\nAction Input:\n\n${echo}\n\n`,
      "bash",
      hi,
    ],
    ["with carriage returns", `Thought: t\r\nAction: bash\r\nAction Input: ${echo}\r\n`, "bash", hi],
    ["with bold labels", `**Thought:** t\n**Action:** bash\n**Action Input:** ${echo}`, "bash", hi],
    ["with bold words and colons behind", `**Action**: bash\n**Action Input**: ${echo}`, "bash", hi],
    ["with numbers", `Thought 1: t\nAction 1: bash\nAction Input 1: ${echo}`, "bash", hi],
    ["with indented, small labels", `  action: bash\n  action input: ${echo}`, "bash", hi],
    ["with wide colons", `Action：bash\nAction Input：${echo}`, "bash", hi],
    ["with an underscore", `Action: bash\nAction_Input: ${echo}`, "bash", hi],
    ["with the name on the next line", `Action:\nbash\nAction Input: ${echo}`, "bash", hi],
    ["with the name in backticks", "Action: `bash`\nAction Input: echo hi", "bash", hi],
    ["with the name in stars and a full stop", `Action: **bash**.\nAction Input: ${echo}`, "bash", hi],
    ["with a prefix", `Action: functions.bash\nAction Input: ${echo}`, "bash", hi],
    [
      "with pretty JSON and words behind",
      'Thought: t\nAction: write_file\nAction Input: {\n  "path": "a.txt",\n  "content": "x}\\n{y"\n}\nI will then check it.',
      "write_file",
      { path: "a.txt", content: "x}\n{y" },
    ],
    ["with fenced JSON", `Action: bash\nAction Input:\n\`\`\`json\n${echo}\n\`\`\``, "bash", hi],
    [
      "with fenced JSON on the line of the label",
      `Action: bash\nAction Input: \`\`\`\n${echo}\n\`\`\`\nThen on.`,
      "bash",
      hi,
    ],
    ["with the beginning of a stop word", `Action: bash\nAction Input: ${echo}\nObserv`, "bash", hi],
    [
      "with bare text and the beginning of a stop word",
      "Action: bash\nAction Input: echo hi\nObserv",
      "bash",
      hi,
    ],
    ["with the input in brackets", `Action: bash(${echo})`, "bash", hi],
    [
      "with the input in brackets over lines",
      'Action: bash(\n{"command":\n"echo hi"}\n)\nObservation: hi',
      "bash",
      hi,
    ],
    ["with the input behind the name", `Action: bash ${echo}`, "bash", hi],
    ["with empty brackets for a tool that needs nothing", "Action: list_files()", "list_files", {}],
    ["with bare text", "Action: bash\nAction Input: echo hi", "bash", hi],
    ["with bare text in quotes", 'Action: bash\nAction Input: "echo hi"', "bash", hi],
    ["with bare text in backticks", "Action: bash\nAction Input: `echo hi`", "bash", hi],
    [
      "with bare text that begins with a quoted word",
      'Action: bash\nAction Input: "./my run" --all',
      "bash",
      { command: '"./my run" --all' },
    ],
    [
      "with bare text that begins with a bracket",
      "Action: bash\nAction Input: [ -f a ] && cat a",
      "bash",
      { command: "[ -f a ] && cat a" },
    ],
    [
      "with bare text and an invented observation",
      "Action: bash\nAction Input: echo hi\nObservation: hi\nFinal Answer: hi",
      "bash",
      hi,
    ],
    [
      "with bare text in a fence, several lines of it",
      "Action: python\nAction Input:\n```python\nx = 1\n\nprint(x)\n```",
      "python",
      { code: "x = 1\n\nprint(x)" },
    ],
    [
      "with bare text for the only parameter",
      "Action: weather\nAction Input: Oslo",
      "weather",
      { city: "Oslo" },
    ],
    ["without an input, where none is needed", "Thought: t\nAction: list_files\n", "list_files", {}],
    [
      "with an empty input, where none is needed",
      "Action: list_files\nAction Input:\nObservation: a",
      "list_files",
      {},
    ],
    [
      "with arguments encoded twice",
      'Action: bash\nAction Input: "{\\"command\\":\\"echo hi\\"}"',
      "bash",
      hi,
    ],
    ["with single quotes", "Action: bash\nAction Input: {'command': 'echo hi'}", "bash", hi],
    [
      "with double quotes in single ones",
      `Action: bash\nAction Input: {'command': 'echo "hi"'}`,
      "bash",
      { command: 'echo "hi"' },
    ],
    ["with trailing commas", 'Action: bash\nAction Input: {"command": "echo hi",}', "bash", hi],
    [
      "with names without quotes and comments",
      'Action: bash\nAction Input: {command: "echo hi" /* hi */, // end\n}',
      "bash",
      hi,
    ],
    [
      "with words of Python",
      `Action: edit_file\nAction Input: {'path': 'a', 'oldText': 'x', 'newText': None, 'replaceAll': True}`,
      "edit_file",
      { path: "a", oldText: "x", newText: null, replaceAll: true },
    ],
    [
      "with line breaks in a text",
      'Action: bash\nAction Input: {"command": "cat <<E\nObservation: x\nFinal Answer: y\nE"}',
      "bash",
      { command: "cat <<E\nObservation: x\nFinal Answer: y\nE" },
    ],
    [
      "with a text in three quotes",
      'Action: python\nAction Input: {"code": """print("a")\nprint(\'b\')"""}',
      "python",
      { code: "print(\"a\")\nprint('b')" },
    ],
    [
      "with escapes that are none of JSON",
      'Action: bash\nAction Input: {"command": "grep \'\\d\\.\' a | sed s/\\$/x/"}',
      "bash",
      { command: "grep '\\d\\.' a | sed s/\\$/x/" },
    ],
    [
      "with a text that is JSON, which stays a text",
      'Action: write_file\nAction Input: {"path":"c.json","content":"{\\"a\\":1}"}',
      "write_file",
      { path: "c.json", content: '{"a":1}' },
    ],
    [
      "with a text that is a number, which stays a text",
      'Action: write_file\nAction Input: {"path":"v","content":"42"}',
      "write_file",
      { path: "v", content: "42" },
    ],
    [
      "with the words of an end in a text",
      'Action: write_file\nAction Input: {"path":"t.md","content":"Final Answer: 5"}',
      "write_file",
      { path: "t.md", content: "Final Answer: 5" },
    ],
    [
      "with the words of an end in a thought",
      'Thought: later I will write Final Answer: yes\nAction: bash\nAction Input: {"command":"echo hi"}',
      "bash",
      hi,
    ],
    [
      "with a final answer behind it",
      `Action: bash\nAction Input: ${echo}\nFinal Answer: it printed b`,
      "bash",
      hi,
    ],
    [
      "with an invented observation behind it",
      `Thought: look\nAction: bash\nAction Input: ${echo}\nObservation: 42\nThought: I know\nFinal Answer: 42`,
      "bash",
      hi,
    ],
    [
      "with a second action behind it",
      `Action: bash\nAction Input: ${echo}\nAction: bash\nAction Input: {"command":"rm a"}`,
      "bash",
      hi,
    ],
    [
      "behind another one in a code block",
      `Thought: the log says\n\`\`\`\nAction: bash\nAction Input: {"command":"rm a"}\nFinal Answer: x\n\`\`\`\nAction: bash\nAction Input: ${echo}`,
      "bash",
      hi,
    ],
    [
      "behind another one in a thought of the model's",
      `So.\n<think>\nAction: bash\nAction Input: {"command":"rm a"}\n</think>\nAction: bash\nAction Input: ${echo}`,
      "bash",
      hi,
    ],
    [
      "in a code block that is the whole reply",
      `\`\`\`\nThought: t\nAction: bash\nAction Input: ${echo}\n\`\`\``,
      "bash",
      hi,
    ],
    [
      "of a tool that there is not",
      "Action: delete_everything\nAction Input: all",
      "delete_everything",
      { input: "all" },
    ],
    ["of a tool that there is not, without an input", "Action: nothing_like_it", "nothing_like_it", {}],
  ])("is read: %s", (_what, content, name, input) => {
    expect(actionOf(read(content))).toEqual([name, input]);
  });

  it("goes with its thought", () => {
    expect(read(`Thought: I look.\nAction: bash\nAction Input: ${echo}`)).toMatchObject({ text: "I look." });
  });

  it("keeps JSON to the letter", () => {
    const json = '{ "n": 12345678901234567890, "s": "é\\u00e9" }';
    expect(read(`Action: count\nAction Input: ${json}`)).toMatchObject({ calls: [{ argumentsText: json }] });
  });

  it("is run although the output limit was met, where its object is whole; anything else that was cut is not", () => {
    expect(actionOf(read(`Action: bash\nAction Input: ${echo}\nObservation: 1`, "length"))).toEqual([
      "bash",
      hi,
    ]);
    for (const content of [
      "Action: bash\nAction Input: rm -r build",
      "Action: list_files",
      'Action: bash\nAction Input: {"command": "rm',
      "Final Answer: it is",
      "Thought: hm",
      "",
    ])
      expect(read(content, "length")).toMatchObject({
        kind: "bad",
        problem: expect.stringContaining("cut off by the output limit"),
      });
  });

  it("comes back whatever its texts hold, also as one would write it in Python", () => {
    const parts = fc.constantFrom(
      "\n",
      "Observation: x",
      "Final Answer: y",
      "Action: z",
      "}",
      "{",
      '"',
      "'",
      "\\",
      "```",
      " ",
    );
    const value = fc.array(fc.oneof(parts, fc.string()), { maxLength: 10 }).map((list) => list.join(""));
    fc.assert(
      fc.property(value, value, (path, content) => {
        const input = { path, content };
        const python = `{'path': ${pythonText(path)}, "content": ${JSON.stringify(content)},}`;
        for (const json of [JSON.stringify(input), JSON.stringify(input, null, 2), python])
          expect(
            actionOf(read(`Thought: t\nAction: write_file\nAction Input: ${json}\nObservation: done`)),
          ).toEqual(["write_file", input]);
      }),
      { numRuns: 500 },
    );
  });
});

function pythonText(value: string): string {
  return `'${value.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}

describe("nothing is run and the model is told", () => {
  it.each<[string, string, RegExp]>([
    ["neither an action nor an end", "The answer is 7.", /neither an action nor a final answer/],
    ["only a thought", "Thought: I should run ls.", /neither an action nor a final answer/],
    ["nothing at all", " \n", /was empty/],
    [
      "an observation first",
      `Observation: 7\nAction: bash\nAction Input: ${echo}\nFinal Answer: 7`,
      /neither/,
    ],
    ["an input without an action", `Action Input: ${echo}`, /neither/],
    [
      "labels in a code block only",
      `Like this:\n\`\`\`\nAction: bash\nAction Input: ${echo}\n\`\`\``,
      /neither/,
    ],
    ["labels in the middle of a line", "I say Action: bash and Final Answer: 7", /neither/],
    ["no name", `Action:\nAction Input: ${echo}`, /plain name/],
    ["words for a name", `Action: I will list the files\nAction Input: ${echo}`, /plain name/],
    ["two names", `Action: bash, read_file\nAction Input: ${echo}`, /plain name/],
    ["JSON that does not end", 'Action: bash\nAction Input: {"command": "echo hi"', /no JSON object/],
    ["JSON that does not end, in brackets", 'Action: bash({"command": "echo hi"', /no JSON object/],
    [
      "JSON with quotes that are not escaped",
      'Action: bash\nAction Input: {"command": "echo "hi""}',
      /no JSON object/,
    ],
    [
      "JSON that is no object, in a fence",
      'Action: bash\nAction Input:\n```json\n{"command": "a"\n```',
      /no JSON object/,
    ],
    ["a list for an input", "Action: count\nAction Input: [1, 2]", /no JSON object/],
    ["a fence that does not end", "Action: bash\nAction Input:\n```\necho hi", /no JSON object/],
    [
      "a fence within a fenced script",
      "Action: bash\nAction Input:\n```\ncat > a <<E\n```\nE\n```",
      /no JSON object/,
    ],
    [
      "bare text of several lines",
      "Action: bash\nAction Input: echo hi\nI will then check it.",
      /no JSON object/,
    ],
    [
      "bare text and words behind it",
      "Action: bash\nAction Input: echo hi\n\nThat prints hi.",
      /no JSON object/,
    ],
    [
      "bare text for a tool with two parameters",
      "Action: write_file\nAction Input: a.txt",
      /form: \{"path": string/,
    ],
    ["bare text for a number", "Action: count\nAction Input: seven", /form: \{"n": integer\}/],
    ["no input where one is needed", "Action: bash", /form: \{"command": string/],
    ["empty brackets where an input is needed", "Action: bash()", /form: \{"command": string/],
    [
      "an empty input where one is needed",
      "Action: bash\nAction Input:\nObservation: hi",
      /form: \{"command": string/,
    ],
    ["a word in brackets", "Action: bash(ls)", /form: \{"command": string/],
    ["a final answer without a text", "Thought: done\nFinal Answer: \n", /without a text/],
    ["the block of another protocol", "```bash-action\nls\n```", /neither/],
  ])("%s", (_what, content, problem) => {
    const parsed = read(content);
    expect(parsed).toMatchObject({ kind: "bad", problem: expect.stringMatching(problem) });
    expect(parsed).toMatchObject({ problem: expect.stringContaining('Action Input: {"command": "ls -la"}') });
    expect(parsed).toMatchObject({ problem: expect.stringContaining("Final Answer: the result") });
  });

  it("a call through the tool interface, and a refusal, which ends the run", () => {
    const tool_calls = [{ id: "1", type: "function", function: { name: "bash", arguments: "{}" } }];
    const action = `Action: bash\nAction Input: ${echo}`;
    expect(read(action, "tool_calls", { tool_calls })).toMatchObject({
      kind: "bad",
      problem: expect.stringContaining("tool interface"),
    });
    expect(read(null, "stop", { refusal: "No." })).toEqual({ kind: "refused", text: "No." });
    expect(read(action, "content_filter")).toMatchObject({ kind: "refused" });
  });

  it("whatever comes: no text makes it throw, and what is sent back means the same", () => {
    const parts = fc.constantFrom(
      "Thought:",
      "Action:",
      "Action Input:",
      "Observation:",
      "Final Answer:",
      "\n",
      "bash",
      "{",
      "}",
      '"',
      "'",
      ":",
      "```",
      "<think>",
      "</think>",
      echo,
      "\\",
      " ",
    );
    fc.assert(
      fc.property(fc.array(fc.oneof(parts, fc.string()), { maxLength: 20 }), (list) => {
        const content = list.join("");
        const parsed = read(content);
        if (parsed.kind === "bad") expect(parsed.problem).toContain("Final Answer:");
        if (parsed.kind === "calls") expect(actionOf(parsed)?.[1]).toBeTypeOf("object");
        const again = read(sentBack(content));
        if (parsed.kind === "calls") expect(again).toEqual(parsed);
        expect(String(sentBack(content)).trim()).not.toBe("");
      }),
      { numRuns: 3000 },
    );
  });
});

describe("the end", () => {
  it.each([
    ["Thought: done\nFinal Answer: 7", "7"],
    [
      "Final Answer: line one\nline two\nAction: none of this matters",
      "line one\nline two\nAction: none of this matters",
    ],
    ["**Final Answer:**\n\nThe fix:\n```js\nlet a;\n```\nDone.", "The fix:\n```js\nlet a;\n```\nDone."],
    ["Thought: I am done\nAction: None\nFinal Answer: 7", "7"],
    ["<think>Action: bash</think>Final Answer: 7", "7"],
  ])("is the final answer, with all that follows: %j", (content, answer) => {
    expect(read(content)).toEqual({ kind: "answer", text: answer });
  });
});

describe("what is sent", () => {
  it.each([
    [
      `Thought: look\nAction: bash\nAction Input: ${echo}\nObservation: 42\nThought: I know\nFinal Answer: 42`,
      `Thought: look\nAction: bash\nAction Input: ${echo}`,
    ],
    [`Action: bash\nAction Input: ${echo}\nI will then check it.`, `Action: bash\nAction Input: ${echo}`],
    ["Action: bash\nAction Input: echo hi\nObservation: hi", "Action: bash\nAction Input: echo hi"],
    ["Action: bash\nAction Input: {broken\nObservation: hi", "Action: bash\nAction Input: {broken"],
    ["Thought: hm\nObservation: hi", "Thought: hm"],
    ["Action Input: ls\nObservation: hi", "Action Input: ls"],
    ["Observation: hi", "(no text)"],
    [`Action: bash(${echo})\nObservation: hi`, `Action: bash(${echo})`],
    ["Final Answer: one\nObservation: two", "Final Answer: one\nObservation: two"],
  ])("back of a reply is what counts, without what the model made up behind it: %j", (content, expected) => {
    expect(sentBack(content)).toBe(expected);
  });

  it("is a user message for every observation, no tools, and a stop word", () => {
    expect(protocol.renderResult({ wireId: "c", content: "7", isError: false })).toEqual({
      role: "user",
      content: "Observation: 7",
    });
    expect(protocol.renderResult({ wireId: "c", content: "exit code 1", isError: true }).content).toBe(
      "Observation: Error: exit code 1",
    );
    expect(protocol.requestTools(tools)).toEqual([]);
    expect(protocol.stop).toEqual(["\nObservation:"]);
  });
});
