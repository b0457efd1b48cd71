import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { builtInTools } from "../../src/tools/built-in.ts";
import { callTool, toolContext } from "../helpers/tool-context.ts";

test.each([
  [
    "bash",
    { command: "touch ran", cwd: "/" },
    /cwd: no such parameter; the parameters are: command, timeoutMs, workdir/,
  ],
  ["read_file", { path: "a", limits: 1 }, /limits: no such parameter \(did you mean "limit"\?\)/],
  ["write_file", { path: "ran", content: "x", contents: "y" }, /\(did you mean "content"\?\)/],
  [
    "edit_file",
    { path: "a", oldText: "x", newText: "y", replaceall: true },
    /\(did you mean "replaceAll"\?\)/,
  ],
  ["list_files", { path: ".", pattern: "*" }, /pattern: no such parameter; the parameters are: path, glob/],
])("%s runs nothing and says so where an argument is unknown: %j", async (name, input, message) => {
  const context = toolContext();
  writeFileSync(path.join(context.workspace, "a"), "x");
  expect(await callTool(context, name, input)).toMatchObject({
    isError: true,
    content: expect.stringMatching(message),
  });
  expect(await callTool(toolContext({ ...context, callId: "1.2" }), "list_files", {})).toEqual({
    content: "a",
    note: expect.anything(),
  });
  expect(readFileSync(path.join(context.workspace, "a"), "utf8")).toBe("x");
});

test("arguments in snake case mean the same", async () => {
  const context = toolContext();
  writeFileSync(path.join(context.workspace, "a"), "one one");
  const edit = { path: "a", old_text: "one", new_text: "two", replace_all: true };
  expect((await callTool(context, "edit_file", edit)).isError).toBeFalsy();
  expect(readFileSync(path.join(context.workspace, "a"), "utf8")).toBe("two two");
  const slow = { command: "sleep 60", timeout_ms: 100 };
  expect(await callTool({ ...context, callId: "1.2" }, "bash", slow)).toMatchObject({
    note: "timed out after 0.1 s",
  });
});

test("the model is told that nothing else is taken", () => {
  for (const { parameters } of builtInTools()) expect(parameters.additionalProperties).toBe(false);
});
