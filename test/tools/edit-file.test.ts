import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { builtInTools } from "../../src/tools/built-in.ts";
import { recoverCall } from "../../src/tools/execute.ts";
import { callTool, toolContext } from "../helpers/tool-context.ts";

interface Input {
  oldText: string;
  newText: string;
  replaceAll?: boolean;
}

async function edit(before: string | Buffer, input: Input) {
  const context = toolContext();
  const file = path.join(context.workspace, "f");
  writeFileSync(file, before);
  const output = await callTool(context, "edit_file", { path: "f", ...input });
  return { ...output, after: readFileSync(file, "utf8"), context, file };
}

const threeTimes = "x = 1\nx = 1\nx = 1\n";

test.each([
  ["x = 1", /occurs 3 times, at lines 1, 2, 3/],
  ["x = 1\nx = 1", /occurs 2 times, at lines 1, 2/],
])("the ambiguous %j is refused with its number and the file is unchanged", async (oldText, message) => {
  const { content, isError, after } = await edit(threeTimes, { oldText, newText: "x = 2" });
  expect(content).toMatch(message);
  expect(isError).toBe(true);
  expect(after).toBe(threeTimes);
});

test.each([
  ["", "z", /empty string/],
  ["x", "x", /equal/],
])("%j to %j is refused", async (oldText, newText, message) => {
  const { content, isError, after } = await edit("x", { oldText, newText });
  expect(content).toMatch(message);
  expect({ isError, after }).toEqual({ isError: true, after: "x" });
});

test("dollar signs in the new text are literal, once and everywhere", async () => {
  const newText = "$$ $& $` $' $1";
  expect((await edit("PID=old", { oldText: "old", newText })).after).toBe(`PID=${newText}`);
  const twice = await edit("a=old b=old", { oldText: "old", newText, replaceAll: true });
  expect(twice.after).toBe(`a=${newText} b=${newText}`);
  expect(twice.content).toContain("replaced 2 places");
});

test("CRLF line ends and a byte order mark are kept", async () => {
  const { after } = await edit("\ufeffone\r\ntwo\r\nthree\r\n", { oldText: "one\ntwo", newText: "1\n2" });
  expect(after).toBe("\ufeff1\r\n2\r\nthree\r\n");
});

test("a file that is not UTF-8 is not damaged", async () => {
  const latin = Buffer.from("caf\xe9 old", "latin1");
  const { isError, file } = await edit(latin, { oldText: "old", newText: "new" });
  expect(isError).toBe(true);
  expect(readFileSync(file)).toEqual(latin);
});

test.each([
  [
    "other whitespace",
    "if (a) {\n\tb();\n}\n",
    "if (a) {\n  b();\n}",
    /line 1 with other whitespace.*\tb\(\);/s,
  ],
  ["line numbers", "one\ntwo\n", "1: one\n2: two", /line numbers/],
  ["escaped line break", "one\ntwo\n", "one\\ntwo", /backslash/],
  ["a block that differs further down", "a {\n b\n}\n", "a {\n c\n}", /first line is at line 1/],
  ["nothing similar", "one\n", "other", /Read the file again/],
])("a near miss by %s is explained", async (_title, before, oldText, message) => {
  const { content, after } = await edit(before, { oldText, newText: "z" });
  expect(content).toMatch(message);
  expect(after).toBe(before);
});

describe("after a crash", () => {
  const recover = (context: ReturnType<typeof toolContext>) =>
    recoverCall({
      tools: builtInTools(),
      name: "edit_file",
      argumentsText: JSON.stringify({ path: "f", oldText: "a", newText: "aa" }),
      context: { ...context, epoch: 2 },
      startedEpoch: 1,
    });

  test("an edit that was applied is not applied again", async () => {
    const { context, after } = await edit("a", { oldText: "a", newText: "aa" });
    expect(after).toBe("aa");
    expect(await recover(context)).toMatchObject({
      kind: "done",
      output: { content: expect.stringContaining("replaced 1") },
    });
  });

  test("an edit that was not applied is run", async () => {
    const { context, file } = await edit("a", { oldText: "a", newText: "aa" });
    writeFileSync(file, "a");
    expect(await recover(context)).toEqual({ kind: "run" });
    expect(await recover(toolContext())).toEqual({ kind: "run" });
  });

  test("a file that changed otherwise is unknown", async () => {
    const { context, file } = await edit("a", { oldText: "a", newText: "aa" });
    writeFileSync(file, "b");
    expect(await recover(context)).toMatchObject({ kind: "unknown" });
  });
});
