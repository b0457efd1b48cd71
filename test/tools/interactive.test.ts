import { existsSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { findInteractive } from "../../src/tools/interactive.ts";
import { callTool, toolContext } from "../helpers/tool-context.ts";

describe("commands that need a terminal", () => {
  test.each([
    "vim",
    "vi notes.txt",
    "/usr/bin/nano a b",
    "top",
    "watch ls",
    " python3 ",
    "node",
    "psql",
    "bash",
  ])("%s is refused", (command) => expect(findInteractive(command)).toBeDefined());

  test.each([
    "vim --version",
    "nvim --headless -c q",
    "python3 script.py",
    "python3 -c 'print(1)'",
    "node < script.js",
    "echo 1 | python3",
    "top -b -n 1",
    "cat vim",
    "make vi",
    "python3\necho done",
    "psql mydb",
    "EDITOR=vim git commit",
    "sqlite3 data.db .tables",
  ])("%s is run", (command) => expect(findInteractive(command)).toBeUndefined());

  test("the model is told what to do instead, and nothing runs", async () => {
    const context = toolContext();
    const { content, isError } = await callTool(context, "bash", { command: "nano a.txt" });
    expect(isError).toBe(true);
    expect(content).toMatch(
      /nano is an editor and needs a terminal; change files with edit_file.*Nothing was run/,
    );
    expect(existsSync(path.join(context.calls, "1.1.1.sh"))).toBe(false);
  });
});
