import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { forTerminal, paint } from "../../src/cli/output.ts";
import { commandLine } from "../helpers/command-line.ts";

const sources = path.join(import.meta.dirname, "..", "..", "src", "cli");
const hostile = "a\u001b[31mb\u001b]0;title\u0007c\u009b1md\re\nf";
/** Line feeds and tabs aside. */
const control = /(?![\n\t])\p{Cc}/u;

test("no command brings the control characters of a key, a batch or a path to the terminal", async () => {
  const { folder, pawl, json } = commandLine();
  const named = ["--key", hostile, "--batch", hostile];
  await pawl(["enqueue", "x", "--key", "plain", "--batch", "plain"]);
  // Such names are refused today; a database may have them from before.
  const database = new Database(path.join(folder, ".pawl", "pawl.db"));
  database.prepare("UPDATE runs SET key = ?").run(hostile);
  database.prepare("UPDATE batches SET name = ? WHERE name = 'plain'").run(hostile);
  database.close();
  expect((await pawl(["list"])).stdout).toContain("abcde f");
  const [run] = await json(["list"]);
  expect(run).toMatchObject({ key: hostile, batch: hostile });
  const commands = [
    ["enqueue", "y", ...named],
    ["enqueue", hostile, ...named, "--dry-run"],
    ["enqueue", "--file", hostile],
    ["list"],
    ["show", hostile],
    ["logs", hostile],
    ["status", "--batch", hostile],
    ["diff", hostile],
    ["pause", hostile],
    ["cancel", hostile],
    ["retry", hostile],
    ["apply", hostile, "--to", hostile],
    ["show", `${hostile}!`],
    ["list", "--batch", `${hostile}!`],
    ["list", "--status", hostile],
    [hostile],
  ];
  for (const words of commands) {
    const { stdout, stderr } = await pawl(words);
    const said = stdout + stderr;
    expect(said, words.join(" ")).not.toBe("");
    expect(said, words.join(" ")).not.toMatch(control);
  }
});

test("our own colours reach a terminal, those of the text in them do not", () => {
  const terminal = { isTTY: true } as NodeJS.WriteStream;
  const painted = paint("bold", `x ${paint("red", "a\u001b[42mb", terminal)}`, terminal);
  expect(forTerminal(`${painted}\u001b[2J`)).toBe("\u001b[1mx \u001b[31mab\u001b[39m\u001b[22m");
});

test("commands write by output.ts alone, which cleans what is for people", () => {
  const writers = readdirSync(sources).filter((file) =>
    /process\.std(out|err)\.write|stream\.write|console\./.test(
      readFileSync(path.join(sources, file), "utf8"),
    ),
  );
  // The live line draws itself over, with what output.ts has cleaned.
  expect(writers).toEqual(["live-line.ts", "output.ts"]);
});
