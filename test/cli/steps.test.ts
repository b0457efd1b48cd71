import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { startAgentServer } from "../helpers/agent-server.ts";
import { commandLine } from "../helpers/command-line.ts";
import { waitUntil } from "../helpers/wait-until.ts";

const bash = (command: string) => ({ tool: "bash", input: { command } });

const work = [
  bash("printf '1\\n' > first; printf '\\0\\377\\r\\n' > bytes; chmod +x first; ln -s first link"),
  bash("ls"),
  bash("rm first; mkdir first; echo 3 > first/third"),
  { text: "Worked." },
];

/** A run with the key `k` that worked in a folder of the user's. */
async function workedInPlace() {
  const { env, requests } = await startAgentServer({ work });
  const line = commandLine({ env });
  const dir = path.join(line.folder, "mine");
  mkdirSync(dir);
  writeFileSync(path.join(dir, "old"), "old\n");
  const { code } = await line.pawl(["run", "work", "--dir", "mine", "--key", "k"]);
  expect(code).toBe(0);
  return { ...line, dir, requests };
}

test("the difference of one step is its change alone; a step that changed nothing has none", async () => {
  const { json, pawl } = await workedInPlace();
  const [third] = await json(["diff", "k", "--step", "3"]);
  expect(third).toMatchObject({
    step: 3,
    files: [
      { status: "D", path: "first" },
      { status: "A", path: "first/third" },
    ],
    patch: expect.stringContaining("+3\n"),
  });
  const [second] = await json(["diff", "k", "--step", "2"]);
  expect(second).toMatchObject({ step: 2, files: [], patch: "" });
  expect((await pawl(["diff", "k", "--step", "2"])).stderr).toContain("changed no file");
});

test("the files after a step come back byte for byte, also where later steps replaced them", async () => {
  const { json, folder } = await workedInPlace();
  const to = path.join(folder, "back");
  const [restored] = await json(["restore", "k", "--step", "2", "--to", "back"]);
  expect(restored).toMatchObject({
    step: 2,
    target: to,
    saved: null,
    tree: expect.stringMatching(/^\w{40}$/),
  });
  expect(readFileSync(path.join(to, "bytes"))).toEqual(Buffer.from([0, 255, 13, 10]));
  expect(readFileSync(path.join(to, "link"), "utf8")).toBe("1\n");
  expect(readFileSync(path.join(to, "old"), "utf8")).toBe("old\n");
});

test.each([[[]], [["--to", "mine"]]])("a run in place is undone with %s", async (more) => {
  const { json, dir } = await workedInPlace();
  writeFileSync(path.join(dir, "first/own"), "made later by the user");
  const [restored] = await json(["restore", "k", "--step", "0", ...more]);
  expect(restored).toMatchObject({ target: dir, saved: expect.stringMatching(/^\w{40}$/) });
  expect(existsSync(path.join(dir, "bytes"))).toBe(false);
  expect(existsSync(path.join(dir, "first/third"))).toBe(false);
  expect(readFileSync(path.join(dir, "first/own"), "utf8")).toBe("made later by the user");
});

test("putting back names what it changed and the command that takes it back, which keeps what others did since", async () => {
  const { json, pawl, dir, folder } = await workedInPlace();
  const undone = await pawl(["restore", "k", "--step", "0"]);
  expect(undone.stdout.split("\n").slice(1)).toEqual(["D bytes", "D first/third", "D link"]);
  const [, command = ""] = /^this takes it back: pawl (.+)$/m.exec(undone.stderr) ?? [];
  const [, , , saved = ""] = command.split(" ");
  writeFileSync(path.join(dir, "own"), "made later by the user");
  expect((await pawl([...command.split(" "), "--to", "back"])).code).toBe(0);
  expect(readFileSync(path.join(folder, "back/first/third"), "utf8")).toBe("3\n");
  expect(existsSync(path.join(folder, "back/own"))).toBe(false);
  const back = await pawl(command.split(" "));
  expect(back.stdout).toContain(`is as it was in snapshot ${saved}`);
  expect(readFileSync(path.join(dir, "first/third"), "utf8")).toBe("3\n");
  expect(readFileSync(path.join(dir, "own"), "utf8")).toBe("made later by the user");
  const [again] = await json(["restore", "k", "--snapshot", saved.slice(0, 12)]);
  expect(again).toMatchObject({ step: null, tree: saved, changed: [] });
});

test("what a user changes while a run works is put back with it, and said, and comes back whole", async () => {
  const { env } = await startAgentServer({
    slow: [bash("echo 1 > begun; until [ -e go ]; do sleep 0.1; done"), { text: "ended" }],
  });
  const { folder, start, pawl } = commandLine({ env });
  const run = start(["run", "slow", "--dir", ".", "--key", "slow"]);
  const at = (name: string) => path.join(folder, name);
  await waitUntil(() => existsSync(at("begun")), { timeoutMs: 20_000, what: "the command runs" });
  writeFileSync(at("mine"), "written meanwhile");
  writeFileSync(at("go"), "");
  expect((await run).exitCode).toBe(0);
  const undone = await pawl(["restore", "slow", "--step", "0"]);
  expect(undone.stdout.split("\n").slice(1)).toEqual(["D begun", "D go", "D mine"]);
  expect(existsSync(at("mine"))).toBe(false);
  const [, command = ""] = /^this takes it back: pawl (.+)$/m.exec(undone.stderr) ?? [];
  expect((await pawl(command.split(" "))).code).toBe(0);
  expect(readFileSync(at("mine"), "utf8")).toBe("written meanwhile");
});

test("a folder that another run works in is not put back", async () => {
  const { json, pawl, start, dir } = await workedInPlace();
  const { env } = await startAgentServer({
    other: [bash("touch begun; until [ -e go ]; do sleep 0.1; done"), { text: "ended" }],
  });
  const other = start(["run", "other", "--dir", "mine"], { env });
  await waitUntil(() => existsSync(path.join(dir, "begun")), {
    timeoutMs: 20_000,
    what: "the other run works",
  });
  const refused = await pawl(["restore", "k", "--step", "0"]);
  expect(refused).toMatchObject({ code: 2, stdout: "" });
  expect(refused.stderr).toMatch(
    /^pawl: expected .*mine to be free, but run \w+ works in it: cancel it first\n?$/,
  );
  expect(existsSync(path.join(dir, "bytes"))).toBe(true);
  writeFileSync(path.join(dir, "go"), "");
  expect((await other).exitCode).toBe(0);
  expect(await json(["restore", "k", "--step", "0"])).toHaveLength(1);
});

test("wrong use is one line that says what was expected", async () => {
  const { pawl, folder } = await workedInPlace();
  const refusals: [string[], RegExp][] = [
    [
      ["restore", "k", "--step", "9", "--to", "x"],
      /expected --step to be a step of run \w+ \(0 to 4\), got "9"/,
    ],
    [
      ["restore", "k", "--step", "-1", "--to", "x"],
      /expected --step to be a step of run \w+ \(0 to 4\), got "-1"/,
    ],
    [["restore", "k", "--step", "1", "--to", "."], /expected a new or empty folder/],
    [["restore", "k", "--to", "x"], /expected either --step .* or --snapshot/],
    [["restore", "k", "--step", "1", "--snapshot", "0123456"], /expected either --step .* or --snapshot/],
    [["restore", "k", "--snapshot", "0123456"], /expected the hash of a snapshot of run \w+, got "0123456"/],
    [
      ["restore", "k", "--snapshot", "HEAD", "--to", "x"],
      /expected the hash of a snapshot of run \w+, got "HEAD"/,
    ],
    [["diff", "k", "--step", "0"], /expected --step to be a step of run \w+ \(1 to 4\), got "0"/],
    [["diff", "k", "--step", "99"], /expected --step to be a step of run \w+ \(1 to 4\), got "99"/],
    [["fork", "k", "--step", "7"], /expected --step to be a step of run \w+ \(0 to 4\), got "7"/],
    [["fork", "nobody", "--step", "1"], /expected one run/],
  ];
  for (const [words, said] of refusals) {
    const { code, stdout, stderr } = await pawl(words);
    expect({ code, stdout, lines: stderr.split("\n").length }, words.join(" ")).toEqual({
      code: 2,
      stdout: "",
      lines: 1,
    });
    expect(stderr).toMatch(said);
  }
  rmSync(path.join(folder, ".pawl/runs"), { recursive: true });
  const gone = await pawl(["restore", "k", "--step", "1", "--to", "y"]);
  expect(gone.code).toBe(2);
  expect(gone.stderr.split("\n")).toHaveLength(1);
});

test("a fork of a run in place works in a folder of its own, and is told what to do and where", async () => {
  const { json, pawl, dir, requests } = await workedInPlace();
  writeFileSync(path.join(dir, "old"), "changed by the user");
  const before = requests.length;
  const [fork = {}] = await json(["fork", "k", "--step", "1", "Now do something else."]);
  expect(fork).toEqual({ id: expect.any(String), origin: expect.any(String), step: 1 });
  expect((await pawl(["list"])).stdout).toMatch(/ 0\/100 \(\+1 copied\)$/m);
  const worker = await pawl(["worker", "--drain"]);
  expect(worker.code).toBe(0);
  expect(worker.stderr).toContain("goes on after step 1");
  const [run = {}] = await json(["show", String(fork.id)]);
  expect((await pawl(["list"])).stdout).toMatch(/ 3\/100 \(\+1 copied\) /);
  expect((await pawl(["show", String(fork.id)])).stdout).toContain("3 of 100 (+1 copied)");
  expect((await pawl(["diff", String(fork.id), "--step", "5"])).stderr).toContain("(1 to 4)");
  expect(run).toMatchObject({
    status: "succeeded",
    key: null,
    steps: 3,
    changedFiles: ["bytes", "first/third", "link"],
  });
  const workspace = (run.workspace as { path: string }).path;
  expect(workspace).not.toBe(dir);
  expect(readFileSync(path.join(workspace, "old"), "utf8")).toBe("old\n");
  expect(readFileSync(path.join(dir, "old"), "utf8")).toBe("changed by the user");
  const told = String(requests[before]?.messages.at(-1)?.content);
  expect(told).toMatch(/^Now do something else\./);
  expect(told).toContain(workspace);
  expect(told).toContain(`Do not use ${dir} any more`);
});
