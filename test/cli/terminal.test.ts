import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { execa } from "execa";
import { expect, onTestFinished, test } from "vitest";
import { startAgentServer } from "../helpers/agent-server.ts";
import { type CommandLine, commandLine, mainFile } from "../helpers/command-line.ts";
import { waitUntil } from "../helpers/wait-until.ts";

const escapeCode = "\u001b";
const limitMs = 20_000;

/** `pawl` at a terminal of its own, made by script(1); `type` sends keys. What it shows has carriage returns. */
function atTerminal({ folder, env }: CommandLine, command: string, more: Record<string, string> = {}) {
  // Not under a shell, which would answer Ctrl-C with an exit code of its own.
  const line = `exec "${process.execPath}" "${mainFile}" ${command}`;
  const child = execa("script", ["--quiet", "--return", "--command", line, "/dev/null"], {
    cwd: folder,
    env: { ...env, TERM: "xterm", ...more },
    extendEnv: false,
    reject: false,
    timeout: limitMs,
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let shown = "";
  child.stdout.on("data", (chunk) => {
    shown += chunk;
  });
  return {
    shown: () => shown,
    showing: (text: string) =>
      waitUntil(() => shown.includes(text), { timeoutMs: limitMs, what: `the terminal shows ${text}` }),
    type: (keys: string) => void child.stdin.write(keys),
    async end() {
      const { exitCode } = await child;
      return exitCode;
    },
  };
}

const slow = [{ tool: "bash", input: { command: "sleep 2.5" } }, { text: "The answer." }];

test("without --repo and --dir, run works in the current folder, after saying so", async () => {
  const { env } = await startAgentServer({
    greet: [{ tool: "write_file", input: { path: "hello.txt", content: "hello\n" } }, { text: "Written." }],
  });
  const line = commandLine({ env });
  const terminal = atTerminal(line, "run greet");
  expect(await terminal.end()).toBe(0);
  expect(terminal.shown()).toMatch(/^working in the current folder as it is: .*\/project/);
  expect(readFileSync(path.join(line.folder, "hello.txt"), "utf8")).toBe("hello\n");
});

test("one line tells what goes on at the moment and how long, and is gone at the end", async () => {
  const { env } = await startAgentServer({ slow });
  const terminal = atTerminal(commandLine({ env }), "run slow", { NO_COLOR: "1" });
  await terminal.showing("step 1/100 · 1 s · bash sleep 2.5");
  await terminal.showing("step 1/100 · 2 s · bash sleep 2.5");
  expect(await terminal.end()).toBe(0);
  const lastLine = `\r${escapeCode}[2K`;
  const afterLive = terminal.shown().slice(terminal.shown().lastIndexOf(lastLine) + lastLine.length);
  expect(afterLive.replaceAll("\r", "")).toMatch(/^The answer\.\nsucceeded after 2 steps/);
});

test("the line of a fork numbers step and limit from the steps that it copied", async () => {
  const { env } = await startAgentServer({
    slow: [{ tool: "list_files" }, ...slow.slice(0, 1), { text: "." }],
  });
  const line = commandLine({ env });
  await line.pawl(["run", "slow", "--key", "k", "--max-steps", "5"]);
  await line.pawl(["fork", "k", "--step", "1"]);
  const terminal = atTerminal(line, "worker --drain", { NO_COLOR: "1" });
  await terminal.showing("step 2/6 · ");
  expect(await terminal.end()).toBe(0);
});

test("lines are coloured at a terminal, and not with NO_COLOR", async () => {
  const { env } = await startAgentServer({ greet: [{ tool: "list_files" }, { text: "Fine." }] });
  const coloured = atTerminal(commandLine({ env }), "run greet");
  expect(await coloured.end()).toBe(0);
  expect(coloured.shown()).toContain(`${escapeCode}[36m→ list_files`);
  const plain = atTerminal(commandLine({ env }), "run greet", { NO_COLOR: "1" });
  expect(await plain.end()).toBe(0);
  expect(plain.shown()).toContain("→ list_files");
  expect(plain.shown()).not.toContain(`${escapeCode}[3`);
});

test("Ctrl-C ends with 130, says how to go on, and a worker goes on", async () => {
  const { env } = await startAgentServer({
    slow: [
      { tool: "bash", input: { command: "until [ -e go ]; do sleep 0.1; done" } },
      { text: "The answer." },
    ],
  });
  const line = commandLine({ env });
  const terminal = atTerminal(line, "run slow");
  await terminal.showing("→ bash until");
  terminal.type("\u0003");
  await terminal.showing("stopping: current steps get a few seconds");
  writeFileSync(path.join(line.folder, "go"), "");
  expect(await terminal.end()).toBe(130);
  expect(terminal.shown()).toMatch(/run \w+ is queued after 1 step and can be resumed: pawl worker --drain/);
  expect(await line.json(["list"])).toMatchObject([{ status: "queued", steps: 1 }]);
  expect((await line.pawl(["worker", "--drain"])).code).toBe(0);
  expect(await line.json(["list"])).toMatchObject([{ status: "succeeded", result: "The answer." }]);
});

test("a second Ctrl-C leaves at once", async () => {
  const { env } = await startAgentServer({ slow: [{ tool: "bash", input: { command: "sleep 8" } }] });
  const line = commandLine({ env });
  const terminal = atTerminal(line, "run slow");
  await terminal.showing("→ bash sleep 8");
  terminal.type("\u0003");
  await terminal.showing("stopping");
  const startedAt = performance.now();
  terminal.type("\u0003");
  expect(await terminal.end()).toBe(130);
  expect(performance.now() - startedAt).toBeLessThan(4000);
});

test("status --watch at a terminal shows the newest counts in place", async () => {
  const line = commandLine();
  await line.pawl(["enqueue", "x"]);
  const terminal = atTerminal(line, "status --watch");
  await terminal.showing("1 run");
  await line.pawl(["enqueue", "y"]);
  await terminal.showing("2 runs");
  expect(terminal.shown()).toContain(`${escapeCode}[J2 runs`);
  terminal.type("\u0003");
  expect(await terminal.end()).toBe(130);
});
