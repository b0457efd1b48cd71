import { existsSync, mkdirSync, symlinkSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { startAgentServer } from "../helpers/agent-server.ts";
import { commandLine } from "../helpers/command-line.ts";

// What can be known to be wrong before a night is spent on it.

const secret = "tok123456789";
const local = { OPENAI_BASE_URL: "http://127.0.0.1:9/v1", OPENAI_MODEL: "m" };

test.each([
  ["a batch without a name", ["enqueue", "x", "--batch", ""], /the name of a batch/],
  ["a batch named with a tab", ["enqueue", "x", "--batch", "a\tb"], /the name of a batch/],
  ["a key that a terminal does not show", ["enqueue", "x", "--key", "k\u001b[31m"], /--key: expected/],
  ["a history that cannot be written", ["run", "x", "--save", "."], /--save: expected a file/],
  ["a history without a name", ["run", "x", "--save", ""], /--save: expected a file/],
  ["pawl's own folder", ["enqueue", "x", "--dir", ".pawl"], /which is pawl's own/],
  ["a folder in pawl's own", ["run", "x", "--dir", ".pawl/runs"], /which is pawl's own/],
])("%s is refused in one line, and nothing is stored", async (_, words, said) => {
  const line = commandLine({ env: local });
  mkdirSync(path.join(line.folder, ".pawl", "runs"), { recursive: true });
  const { code, stdout, stderr } = await line.pawl(words);
  expect({ code, stdout, lines: stderr.trim().split("\n").length }).toEqual({
    code: 2,
    stdout: "",
    lines: 1,
  });
  expect(stderr).toMatch(said);
  expect(await line.json(["list"])).toEqual([]);
});

test("a base URL with a password is refused before a run exists, and doctor does not print it", async () => {
  const url = `http://user:${secret}@127.0.0.1:9/v1`;
  const line = commandLine({ env: { ...local, OPENAI_BASE_URL: url } });
  const run = await line.pawl(["run", "x"]);
  expect(run).toMatchObject({ code: 2, stderr: expect.stringContaining("without a password") });
  const doctor = await line.pawl(["doctor"]);
  expect(doctor.stdout).toMatch(/MISSING +model .*without a password/);
  expect([run, doctor].map(({ stdout, stderr }) => stdout + stderr).join()).not.toContain(secret);
  expect(await line.json(["list"])).toEqual([]);
});

test("what would be enqueued is shown without the password of its repository", async () => {
  const words = ["enqueue", "x", "--repo", `https://user:${secret}@127.0.0.1/x.git`, "--dry-run"];
  const line = commandLine();
  const shown = [await line.pawl(words), await line.pawl([...words, "--json"])];
  expect(shown.map(({ code }) => code)).toEqual([0, 0]);
  expect(shown.map(({ stdout }) => stdout).join()).toContain("127.0.0.1/x.git");
  expect(JSON.stringify(shown)).not.toContain(secret);
});

test("two names of one folder are one folder: the second run waits for the first", async () => {
  const { env } = await startAgentServer({ x: [{ text: "done" }] });
  const line = commandLine({ env, files: { "d/a.txt": "" } });
  const link = path.join(line.folder, "link");
  symlinkSync("d", link);
  await line.pawl(["enqueue", "x", "--dir", "d", "--key", "one"]);
  await line.pawl(["enqueue", "x", "--dir", "link", "--key", "two"]);
  const runs = await line.json(["list"]);
  expect(new Set(runs.map(({ workspace }) => (workspace as { path: string }).path)).size).toBe(1);
});

test("what a configuration prints does not get between the JSON", async () => {
  const config = 'console.log("noise"); export default { model: "m", baseUrl: "http://127.0.0.1:9/v1" };';
  const line = commandLine({ files: { "pawl.config.ts": config } });
  const { stdout, stderr } = await line.pawl(["enqueue", "x", "--json"]);
  expect(JSON.parse(stdout)).toMatchObject({ created: true });
  expect(stderr).toContain("noise");
  expect(existsSync(path.join(line.folder, ".pawl"))).toBe(true);
});

test("an error that a tool left behind stops the worker in order, in one line, and costs no run", async () => {
  const tool = `export const late = { name: "late", description: "", class: "pure", parameters: { type: "object" }, parse: (value) => value,
      run: () => new Promise((done) => {
        process.once("uncaughtException", () => done("done"));
        setImmediate(() => { throw new Error("left behind"); });
      }) };`;
  const { env } = await startAgentServer({ x: [{ tool: "late" }, { text: "good" }] });
  const line = commandLine({
    env,
    files: { "late.mjs": tool, "pawl.config.json": '{"tools":["./late.mjs"]}' },
  });
  const { code, stderr } = await line.pawl(["run", "x", "--key", "k"]);
  expect(code).toBe(1);
  expect(stderr).toMatch(/outside of every call.*left behind; stopping in order/);
  expect(stderr).not.toContain("    at ");
  expect(await line.json(["show", "k"])).toMatchObject([{ status: "queued" }]);
});

test("doctor says which tool module cannot be loaded", async () => {
  const config = JSON.stringify({ tools: ["./nope.mjs"], model: "m", baseUrl: local.OPENAI_BASE_URL });
  const { stdout, code } = await commandLine({ files: { "pawl.config.json": config } }).pawl(["doctor"]);
  expect(code).toBe(1);
  expect(stdout).toMatch(/^MISSING +tools +.*nope\.mjs: expected a module/m);
});
