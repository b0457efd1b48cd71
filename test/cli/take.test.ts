import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { execaSync } from "execa";
import { expect, test } from "vitest";
import { startAgentServer } from "../helpers/agent-server.ts";
import { commandLine } from "../helpers/command-line.ts";
import { git, makeRepository } from "../helpers/repository.ts";
import { waitUntil } from "../helpers/wait-until.ts";

interface Message {
  role: string;
  content: unknown;
  tool_calls?: { id: string }[];
  tool_call_id?: string;
}

const edit = [
  { tool: "edit_file", input: { path: "a.txt", oldText: "one", newText: "two" } },
  { tool: "write_file", input: { path: "new/文件.txt", content: "新\n" } },
  { text: "Edited." },
];

/** A repository in the user's folder, and a run with the key `k` that has changed it. */
async function editedRepository() {
  const { env } = await startAgentServer({ edit });
  const line = commandLine({ env });
  const repository = makeRepository(path.join(line.folder, "code"), { "a.txt": "one\n", "b.txt": "b\n" });
  const { code } = await line.pawl(["run", "edit", "--repo", "code", "--key", "k"]);
  expect(code).toBe(0);
  return { ...line, repository };
}

test("the exported patch applies to the base with git apply", async () => {
  const { pawl, repository, folder, json } = await editedRepository();
  const { stdout } = await pawl(["export", "k", "--format", "patch"]);
  expect(stdout).toBe((await pawl(["diff", "k"])).stdout);
  expect(await json(["diff", "k"])).toMatchObject([{ patch: `${stdout}\n`, base: expect.any(String) }]);
  const clone = path.join(folder, "clone");
  execaSync("git", ["clone", "--quiet", repository, clone]);
  execaSync("git", ["apply"], { cwd: clone, input: `${stdout}\n` });
  expect(readFileSync(path.join(clone, "a.txt"), "utf8")).toBe("two\n");
  expect(readFileSync(path.join(clone, "new/文件.txt"), "utf8")).toBe("新\n");
});

test("apply brings the change into the checkout, and says so where it is there already", async () => {
  const { json, pawl, repository } = await editedRepository();
  writeFileSync(path.join(repository, "b.txt"), "my own change\n");
  expect(await json(["apply", "k"])).toMatchObject([
    { checkout: repository, files: ["a.txt", "new/文件.txt"] },
  ]);
  expect(readFileSync(path.join(repository, "a.txt"), "utf8")).toBe("two\n");
  expect(readFileSync(path.join(repository, "b.txt"), "utf8")).toBe("my own change\n");
  const again = await pawl(["apply", "k"]);
  expect(again).toEqual({
    stdout: "",
    stderr: `the change is in ${repository} already; nothing was done`,
    code: 0,
  });
  expect(await json(["apply", "k"])).toMatchObject([{ files: [], isThere: true }]);
});

test("apply refuses a conflict in one line that names the file, and changes nothing", async () => {
  const { pawl, repository } = await editedRepository();
  writeFileSync(path.join(repository, "a.txt"), "three\n");
  const before = git(repository, "status", "--porcelain");
  const { stdout, stderr, code } = await pawl(["apply", "k"]);
  expect({ stdout, code }).toEqual({ stdout: "", code: 2 });
  expect(stderr).toMatch(/^pawl: the change does not fit .*in conflict: a\.txt/);
  expect(stderr.split("\n")).toHaveLength(1);
  expect(readFileSync(path.join(repository, "a.txt"), "utf8")).toBe("three\n");
  expect(git(repository, "status", "--porcelain")).toBe(before);
});

test("apply of a run in place says that there is nothing to bring there", async () => {
  const { env } = await startAgentServer();
  const { pawl } = commandLine({ env });
  await pawl(["run", "x", "--dir", ".", "--key", "k"]);
  const { stderr, code } = await pawl(["apply", "k"]);
  expect(code).toBe(2);
  expect(stderr).toMatch(/worked in .*project itself: there is nothing to bring there/);
});

test("messages are the whole log in OpenAI's form", async () => {
  const { pawl } = await editedRepository();
  const { stdout } = await pawl(["export", "k", "--format", "messages"]);
  const messages = JSON.parse(stdout) as Message[];
  const roles = ["system", "user", "assistant", "tool", "assistant", "tool", "assistant"];
  expect(messages.map(({ role }) => role)).toEqual(roles);
  expect(messages[0]?.content).toContain("You are an agent");
  expect(messages.at(-1)).toEqual({ role: "assistant", content: "Edited." });
  const rows = (await pawl(["export", "k", "--format", "jsonl"])).stdout.split("\n");
  expect(rows.map((row) => JSON.parse(row).seq)).toEqual([1, 2, 3, 4, 5, 6, 7]);
});

test("messages pair each call with a result, also of a run cancelled in the middle of its calls", async () => {
  const command = (text: string) => ({ name: "bash", arguments: { command: text } });
  const { env } = await startAgentServer({
    many: [{ calls: [command("echo one"), command("touch began; sleep 20"), command("echo three")] }],
  });
  const { pawl, json, start } = commandLine({ env });
  await pawl(["enqueue", "many", "--key", "k"]);
  const worker = start(["worker", "--drain"]);
  await waitUntil(async () => (await json(["logs", "k"])).some(({ kind }) => kind === "result"), {
    timeoutMs: 20_000,
    what: "the first result",
  });
  await pawl(["cancel", "k"]);
  await worker;
  expect(await json(["show", "k"])).toMatchObject([{ status: "cancelled", reason: "cancelled" }]);
  const { stdout } = await pawl(["export", "k", "--format", "messages"]);
  const messages = JSON.parse(stdout) as Message[];
  const asked = messages.flatMap(({ tool_calls }) => (tool_calls ?? []).map(({ id }) => id));
  const answered = messages.flatMap(({ tool_call_id }) => (tool_call_id === undefined ? [] : [tool_call_id]));
  expect(asked).toHaveLength(3);
  expect(answered).toEqual(asked);
});

test("formats that are not built yet are refused by name, unknown ones with those there are", async () => {
  const { pawl } = commandLine();
  for (const format of ["traj", "preds"]) {
    const { stderr, code } = await pawl(["export", "x", "--format", format]);
    expect({ stderr, code }).toMatchObject({
      code: 2,
      stderr: `pawl: --format ${format} is not built yet: use messages, jsonl, patch`,
    });
  }
  const unknown = await pawl(["export", "x", "--format", "xml"]);
  expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining("got xml") });
  expect((await pawl(["export", "x"])).code).toBe(2);
});

test("a run that changed nothing has an empty patch; one that has not ended has none yet", async () => {
  const { env } = await startAgentServer();
  const { pawl } = commandLine({ env });
  await pawl(["enqueue", "x", "--key", "k"]);
  expect(await pawl(["diff", "k"])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("expected a run that has ended, got one that is queued"),
  });
  await pawl(["worker", "--drain"]);
  expect(await pawl(["diff", "k"])).toMatchObject({
    code: 0,
    stdout: "",
    stderr: expect.stringContaining("changed no file"),
  });
});
