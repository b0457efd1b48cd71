import { execFileSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import type { ToolContext } from "../../src/tools/tool.ts";
import { callTool, toolContext } from "../helpers/tool-context.ts";

function contextWith(files: Record<string, string>, changes: Partial<ToolContext> = {}): ToolContext {
  const context = toolContext(changes);
  for (const [name, content] of Object.entries(files)) {
    const file = path.join(context.workspace, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, content);
  }
  return context;
}

function contentOf(context: ToolContext, name: string): string {
  return readFileSync(path.join(context.workspace, name), "utf8");
}

describe("paths that leave the workspace are refused", () => {
  function trap(): { context: ToolContext; outside: string } {
    const context = contextWith({ "real/keep": "" });
    const outside = path.dirname(context.workspace);
    mkdirSync(path.join(outside, "outside"));
    mkdirSync(path.join(outside, "ws-evil"));
    writeFileSync(path.join(outside, "outside", "x"), "secret");
    symlinkSync("../outside", path.join(context.workspace, "dir"));
    symlinkSync("../not-yet-there", path.join(context.workspace, "link"));
    symlinkSync("./link", path.join(context.workspace, "link-to-link"));
    symlinkSync("./circle", path.join(context.workspace, "circle"));
    symlinkSync("./real", path.join(context.workspace, "inside"));
    return { context, outside };
  }

  test.each([
    ["write_file", "../outside.txt"],
    ["write_file", "/tmp/pawl-absolute-path-outside"],
    ["write_file", "../ws-evil/x"],
    ["write_file", "dir/x"],
    ["write_file", "dir/new/deep"],
    ["write_file", "link"],
    ["write_file", "link/below"],
    ["write_file", "link-to-link"],
    ["write_file", "circle"],
    ["read_file", "dir/x"],
    ["edit_file", "dir/x"],
    ["list_files", "dir"],
    ["list_files", ".."],
  ])("%s %s", async (tool, target) => {
    const { context, outside } = trap();
    const before = execFileSync("find", [outside, "-printf", "%p %s\n"], { encoding: "utf8" });
    const more = { write_file: { content: "y" }, edit_file: { oldText: "secret", newText: "y" } };
    const input = { path: target, ...Object(more)[tool] };
    const output = await callTool(context, tool, input);
    expect(output).toMatchObject({ isError: true, content: expect.stringMatching(/outside|cannot be used/) });
    expect(output.content).not.toContain("secret");
    expect(execFileSync("find", [outside, "-printf", "%p %s\n"], { encoding: "utf8" })).toBe(before);
    expect(existsSync("/tmp/pawl-absolute-path-outside")).toBe(false);
  });

  test("a link within the workspace works", async () => {
    const { context } = trap();
    expect((await callTool(context, "write_file", { path: "inside/x", content: "z" })).content).toContain(
      "real/x",
    );
    expect(contentOf(context, "real/x")).toBe("z");
  });

  test("a data directory inside the workspace is closed, the run's outputs in it are readable", async () => {
    const base = contextWith({ ".pawl/pawl.db": "db", ".pawl/runs/r1/outputs/1.log": "whole" });
    const context = { ...base, outputs: path.join(base.workspace, ".pawl/runs/r1/outputs") };
    const closed = { isError: true, content: expect.stringContaining("pawl's own data") };
    expect(await callTool(context, "read_file", { path: ".pawl/pawl.db" })).toMatchObject(closed);
    expect(await callTool(context, "write_file", { path: ".pawl/new", content: "" })).toMatchObject(closed);
    expect(
      await callTool(context, "write_file", { path: ".pawl/runs/r1/outputs/1.log", content: "" }),
    ).toMatchObject(closed);
    expect(await callTool(context, "read_file", { path: `${context.outputs}/1.log` })).toEqual({
      content: "whole",
      note: "1 line",
    });
  });
});

describe("read_file", () => {
  test("a file comes as it is", async () => {
    const context = contextWith({ a: "one\n\ttwo\n" });
    expect((await callTool(context, "read_file", { path: "a" })).content).toBe("one\n\ttwo\n");
  });

  test("pages by lines join to the whole", async () => {
    const whole = Array.from({ length: 500 }, (_, n) => `line ${n + 1} é🔍\n`).join("");
    const context = contextWith({ a: whole }, { maxResultChars: 1_500 });
    let joined = "";
    let offset = 1;
    for (let pages = 0; pages < 50 && joined !== whole; pages += 1) {
      const { content } = await callTool(context, "read_file", { path: "a", offset });
      expect(content.length).toBeLessThanOrEqual(1_500);
      joined += content.replace(/\n\[lines .*\]$/, "");
      offset = Number(/read on with offset (\d+)/.exec(content)?.[1] ?? 0);
    }
    expect(joined).toBe(whole);
  });

  test("one line of 5 MB comes in pages by characters", async () => {
    const whole = `{"a":"${"0123456789🔍".repeat(400_000)}"}`;
    const context = contextWith({ "a.json": whole });
    const first = await callTool(context, "read_file", { path: "a.json", limit: 1 });
    expect(first.content.length).toBeLessThanOrEqual(context.maxResultChars);
    const column = Number(/offset 1 and column (\d+)/.exec(first.content)?.[1]);
    expect(first.content.slice(0, column - 1)).toBe(whole.slice(0, column - 1));
    const far = await callTool(context, "read_file", { path: "a.json", column: 4_000_000 });
    expect(far.content.slice(0, 5_000)).toBe(whole.slice(3_999_999, 4_004_999));
  });

  test("a sparse file of 4 GB is read in bounded memory and time", async () => {
    const context = contextWith({ big: `${"text\n".repeat(5_000)}` });
    truncateSync(path.join(context.workspace, "big"), 4 * 1024 ** 3);
    const before = process.memoryUsage().rss;
    const { content } = await callTool(context, "read_file", { path: "big", offset: 1, limit: 20 });
    expect(content).toMatch(/^(text\n){20}\n\[lines 1 to 20, more follow; read on with offset 21/);
    expect(process.memoryUsage().rss - before).toBeLessThan(100_000_000);
  });

  test("binary, empty, missing and special files are told apart", async () => {
    const context = contextWith({ zero: "\0".repeat(100), empty: "", "src/a.ts": "" });
    execFileSync("bash", ["-c", "mkfifo pipe"], { cwd: context.workspace });
    const read = async (file: string) => (await callTool(context, "read_file", { path: file })).content;
    expect(await read("zero")).toContain("binary file of 100 bytes");
    expect(await read("empty")).toContain("is empty");
    expect(await read("src/b.ts")).toContain("there is no file src/b.ts; its folder has a.ts");
    expect(await read("src")).toContain("list_files");
    expect(await read("pipe")).toContain("not a regular file");
  });

  test("beyond the end it says how many lines there are", async () => {
    const context = contextWith({ a: "1\n2\n3", b: "1\n2\n" });
    const at = async (file: string) =>
      (await callTool(context, "read_file", { path: file, offset: 9 })).content;
    expect(await at("a")).toContain("has 3 lines, got offset 9");
    expect(await at("b")).toContain("has 2 lines, got offset 9");
  });

  test("CRLF and a byte order mark are hidden, and said", async () => {
    const context = contextWith({ a: "\ufeffone\r\ntwo\r\n" });
    const { content } = await callTool(context, "read_file", { path: "a" });
    expect(content).toMatch(/^one\ntwo\n\n\[lines end in CRLF/);
  });
});

describe("write_file", () => {
  test("makes parent folders and writes byte for byte", async () => {
    const context = contextWith({});
    const content = '{"a":1}\r\n\ufeff🔍';
    const output = await callTool(context, "write_file", { path: "a/b/c.json", content });
    expect(output.content).toMatch(/^created a\/b\/c.json/);
    expect(contentOf(context, "a/b/c.json")).toBe(content);
  });

  test("replaces in one step, keeps the mode and leaves nothing else behind", async () => {
    const context = contextWith({ run: "old" });
    chmodSync(path.join(context.workspace, "run"), 0o755);
    expect((await callTool(context, "write_file", { path: "run", content: "new" })).content).toMatch(
      /^replaced run/,
    );
    expect(statSync(path.join(context.workspace, "run")).mode & 0o777).toBe(0o755);
    expect(readdirSync(context.workspace)).toEqual(["run"]);
  });

  test("a folder or a file in the way is an error", async () => {
    const context = contextWith({ "dir/a": "" });
    expect(await callTool(context, "write_file", { path: "dir", content: "" })).toMatchObject({
      isError: true,
    });
    expect(await callTool(context, "write_file", { path: "dir/a/b", content: "" })).toMatchObject({
      isError: true,
    });
  });
});

describe("list_files", () => {
  test("lists the top first and leaves out what is nobody's source", async () => {
    const context = contextWith({ "z.txt": "", "src/a.ts": "", "node_modules/m/i.js": "", ".git/HEAD": "" });
    expect((await callTool(context, "list_files", {})).content).toBe("src/\nz.txt\nsrc/a.ts");
  });

  test.each([
    ["*.ts", "a.ts\nsrc/b.ts\nsrc/deep/c.ts"],
    ["src/*.ts", "src/b.ts"],
    ["src/**/*.ts", "src/b.ts\nsrc/deep/c.ts"],
    ["**/*.{ts,md}", "a.ts\nsrc/b.ts\nsrc/r.md\nsrc/deep/c.ts"],
    ["[ab].ts", "a.ts\nsrc/b.ts"],
    ["[!a].t?", "src/b.ts\nsrc/deep/c.ts"],
    ["a+(b", "no file in . matches a+(b"],
    ["[z-a].ts", 'Error: glob: expected a pattern such as "src/**/*.ts", got "[z-a].ts"'],
  ])("the glob %s", async (glob, content) => {
    const context = contextWith({ "a.ts": "", "src/b.ts": "", "src/r.md": "", "src/deep/c.ts": "" });
    expect((await callTool(context, "list_files", { glob })).content).toBe(content);
  });

  test("a folder of 100,000 entries stays within the cap and says that there are more", async () => {
    const context = contextWith({});
    execFileSync("bash", ["-c", "seq 1 100000 | xargs touch"], { cwd: context.workspace });
    const { content } = await callTool(context, "list_files", {});
    expect(content.length).toBeLessThanOrEqual(context.maxResultChars);
    expect(content).toMatch(/\[at least \d+ more are not shown/);
  });

  test("a missing folder and a file are told apart", async () => {
    const context = contextWith({ a: "" });
    expect((await callTool(context, "list_files", { path: "b" })).content).toContain("no folder b");
    expect((await callTool(context, "list_files", { path: "a" })).content).toContain("is a file");
  });
});
