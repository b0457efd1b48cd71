import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { startAgentServer } from "../helpers/agent-server.ts";
import { type CommandLine, commandLine } from "../helpers/command-line.ts";

/** Fills the pages of a table with garbage; the file can still be opened. Gives the file's path. */
function damage({ folder }: CommandLine, ...names: string[]): string {
  const file = path.join(folder, ".pawl/pawl.db");
  const sqlite = new Database(file);
  sqlite.pragma("wal_checkpoint(TRUNCATE)");
  const find = sqlite.prepare<[string], { root: number }>(
    "SELECT rootpage AS root FROM sqlite_master WHERE name = ?",
  );
  const roots = names.map((name) => find.get(name)?.root ?? 0);
  const size = Number(sqlite.pragma("page_size", { simple: true }));
  sqlite.close();
  const bytes = readFileSync(file);
  for (const root of roots) bytes.fill(0xa5, (root - 1) * size, root * size);
  writeFileSync(file, bytes);
  return file;
}

test("every command says in one line that the database is damaged, which file, and what to do", async () => {
  const line = commandLine({ env: { OPENAI_API_KEY: "k" } });
  await line.pawl(["enqueue", "x", "--key", "k"]);
  const file = damage(line, "runs", "runs_key", "runs_counts", "workers");
  const commands = [
    ["status"],
    ["list"],
    ["show", "k"],
    ["logs", "k"],
    ["diff", "k"],
    ["cancel", "k"],
    ["retry", "k"],
    ["apply", "k"],
    ["fork", "k", "--step", "0"],
    ["export", "k", "--format", "jsonl"],
    ["enqueue", "y", "--key", "k"],
    ["run", "y", "--key", "k"],
    ["worker", "--drain"],
  ];
  for (const words of commands) {
    const { stdout, stderr, code } = await line.pawl(words);
    expect({ stdout, code, lines: stderr.split("\n").length }, `${words}: ${stderr}`).toEqual({
      stdout: "",
      code: 2,
      lines: 1,
    });
    expect(stderr).toContain(`pawl: expected pawl's database at ${file}, but the file is damaged: `);
    expect(stderr).toContain(`sqlite3 ${file} .recover`);
  }
});

test("a damaged database ends the worker, not the run it meets the damage in", async () => {
  const { env } = await startAgentServer();
  const line = commandLine({ env });
  await line.pawl(["enqueue", "x", "--key", "k"]);
  damage(line, "messages");
  const { stderr, code } = await line.pawl(["worker", "--drain"]);
  expect({ code, said: stderr.split("\n").at(-1) }).toEqual({
    code: 2,
    said: expect.stringMatching(/^pawl: expected pawl's database .* is damaged/),
  });
  expect(await line.json(["list"])).toMatchObject([{ status: "queued", reason: null }]);
});
