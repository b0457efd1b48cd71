import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { startAgentServer } from "../helpers/agent-server.ts";
import { commandLine } from "../helpers/command-line.ts";
import { makeRepository } from "../helpers/repository.ts";

const greet = [
  { text: "I write it.", tool: "write_file", input: { path: "hello.txt", content: "你好\n" } },
  { text: "Written: 你好" },
];

test("the answer is all there is on stdout; the steps are on stderr", async () => {
  const { env } = await startAgentServer({ greet });
  const { pawl } = commandLine({ env });
  const { stdout, stderr, code } = await pawl(["run", "greet"]);
  expect({ stdout, code }).toEqual({ stdout: "Written: 你好", code: 0 });
  expect(stderr).toMatch(/step 1 .* → .* tokens I write it\./);
  expect(stderr).toContain("→ write_file hello.txt");
  expect(stderr).toMatch(/succeeded after 2 steps · .* · 1 file changed/);
  expect(stderr).not.toContain("\u001b");
});

test("a question that is answered and changes no file succeeds", async () => {
  const { env } = await startAgentServer({ "what is it?": [{ text: "It is 42." }] });
  const { pawl } = commandLine({ env });
  const { stdout, code } = await pawl(["run", "what is it?", "--json"]);
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({
    status: "succeeded",
    reason: "finished",
    class: "success",
    result: "It is 42.",
    error: null,
    changedFiles: [],
    steps: 1,
    model: "test-model",
  });
});

test("without --repo and --dir and without a terminal, it works in an empty folder whose path is on stderr", async () => {
  const { env } = await startAgentServer({ greet });
  const { pawl, json, folder } = commandLine({ env, files: { "own.txt": "mine" } });
  const { stderr } = await pawl(["run", "greet"]);
  const [run] = await json(["list"]);
  const workspace = String(Object(run?.workspace).path);
  expect(stderr).toContain(workspace);
  expect(readFileSync(path.join(workspace, "hello.txt"), "utf8")).toBe("你好\n");
  expect(existsSync(path.join(folder, "hello.txt"))).toBe(false);
});

test("--dir works in the folder as it is, git or not", async () => {
  const { env } = await startAgentServer({ greet });
  const { pawl, folder } = commandLine({ env });
  const { code } = await pawl(["run", "greet", "--dir", "."]);
  expect(code).toBe(0);
  expect(readFileSync(path.join(folder, "hello.txt"), "utf8")).toBe("你好\n");
});

test("--repo works in an own clone and says what a dirty checkout has that the clone has not", async () => {
  const { env } = await startAgentServer({ greet });
  const { pawl, folder, json } = commandLine({ env });
  const repository = makeRepository(path.join(folder, "code"), { "a.txt": "a\n", "b.txt": "b\n" });
  writeFileSync(path.join(repository, "a.txt"), "changed\n");
  writeFileSync(path.join(repository, "new.txt"), "new\n");
  const { stderr, code } = await pawl(["run", "greet", "--repo", "code"]);
  expect(code).toBe(0);
  expect(stderr).toContain("1 modified and 1 untracked files of the checkout are not in the clone");
  expect(existsSync(path.join(repository, "hello.txt"))).toBe(false);
  const [run] = await json(["list"]);
  expect(run).toMatchObject({ changedFiles: ["hello.txt"] });
  expect(run?.workspace).toMatchObject({ branch: expect.stringMatching(/^pawl\//) });
});

test("a run that fails ends with exit code 1, its error on stderr", async () => {
  const { env } = await startAgentServer({ break: [{ error: { status: 400, message: "no such model" } }] });
  const { pawl } = commandLine({ env });
  const { stdout, stderr, code } = await pawl(["run", "break"]);
  expect({ stdout, code }).toEqual({ stdout: "", code: 1 });
  expect(stderr).toContain("no such model");
  expect(stderr).toMatch(/failed \(model_error\) after 0 steps/);
});

test("a repository that does not exist fails the run as workspace_error", async () => {
  const { env } = await startAgentServer();
  const { pawl } = commandLine({ env });
  const { stdout, code } = await pawl(["run", "x", "--repo", "./nowhere", "--json"]);
  expect(code).toBe(1);
  expect(JSON.parse(stdout)).toMatchObject({ status: "failed", reason: "workspace_error", class: "infra" });
});

test("--save writes the whole history as indented JSON that people can read", async () => {
  const { env } = await startAgentServer({ greet });
  const { pawl, folder } = commandLine({ env });
  const { stderr } = await pawl(["run", "greet", "--save", "history.json"]);
  const text = readFileSync(path.join(folder, "history.json"), "utf8");
  expect(text).toMatch(/^\[\n {2}\{\n {4}"role": "system"/);
  expect(text).toContain('"content": "Written: 你好"');
  const messages = JSON.parse(text) as { role: string }[];
  expect(messages.map(({ role }) => role)).toEqual(["system", "user", "assistant", "tool", "assistant"]);
  expect(stderr).toContain("5 messages saved in history.json");
});

test("a folder for --save that does not exist is noticed before anything is done", async () => {
  const { env, requests } = await startAgentServer();
  const { pawl, folder } = commandLine({ env });
  const { stderr, code } = await pawl(["run", "x", "--save", "nowhere/history.json"]);
  expect(code).toBe(2);
  expect(stderr).toMatch(/^pawl: --save: expected .*"nowhere\/history\.json": name another one$/);
  expect(requests).toHaveLength(0);
  expect(existsSync(path.join(folder, ".pawl"))).toBe(false);
});

test("the same key again goes on with the run that has it: nothing is done twice", async () => {
  const { env, requests } = await startAgentServer({ greet });
  const { pawl } = commandLine({ env });
  await pawl(["run", "greet", "--key", "k1"]);
  const again = await pawl(["run", "greet", "--key", "k1"]);
  expect(again).toMatchObject({ stdout: "Written: 你好", code: 0 });
  expect(again.stderr).toMatch(
    /^the key k1 is taken by run \w+, which succeeded at \S+Z: nothing is run, this is its answer; pawl retry \w+ makes/m,
  );
  const other = await pawl(["run", "something else", "--key", "k1"]);
  expect(other).toMatchObject({ stdout: "Written: 你好", code: 0 });
  for (const said of [
    /^NOT USED: the new task, "something else", differs from the one enqueued\. /m,
    /the key k1 is taken by run \w+, which succeeded at \S+Z: nothing is run, this is its answer\./,
    /Another --key runs the new task; pawl retry \w+ tries the old one again$/m,
  ])
    expect(other.stderr).toMatch(said);
  expect(requests).toHaveLength(2);
});

test("a step limit names the limit and how to go on", async () => {
  const { env } = await startAgentServer({ loop: [{ tool: "list_files" }] });
  const { pawl } = commandLine({ env });
  const { stderr, code } = await pawl(["run", "loop", "--max-steps", "3"]);
  expect(code).toBe(1);
  expect(stderr).toMatch(/the limit of 3 steps is reached: raise it with --max-steps/);
  expect(stderr).toMatch(/failed \(step_limit\) after 3 steps/);
});

test("PAWL_LOG=debug shows each step's thought, action and observation whole", async () => {
  const { env } = await startAgentServer({
    greet: [{ text: "I look first.", tool: "bash", input: { command: "seq 1 400" } }, { text: "Fine." }],
  });
  const { pawl } = commandLine({ env: { ...env, PAWL_LOG: "debug" } });
  const { stdout, stderr } = await pawl(["run", "greet"]);
  expect(stdout).toBe("Fine.");
  expect(stderr).toMatch(/thought\n +I look first\./);
  expect(stderr).toMatch(/action\n +bash \{"command":"seq 1 400"\}/);
  expect(stderr).toMatch(/observation\n +1\n[\d\s]*\n +400\n/);
});

test("PAWL_LOG=silent shows no steps", async () => {
  const { env } = await startAgentServer({ greet });
  const { pawl } = commandLine({ env: { ...env, PAWL_LOG: "silent" } });
  const { stdout, stderr } = await pawl(["run", "greet"]);
  expect(stdout).toBe("Written: 你好");
  expect(stderr).not.toContain("write_file");
});
