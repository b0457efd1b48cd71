import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { RunAborted } from "../../src/abort.ts";
import { builtInTools } from "../../src/tools/built-in.ts";
import { recoverCall } from "../../src/tools/execute.ts";
import type { ToolContext } from "../../src/tools/tool.ts";
import { processesWith } from "../helpers/processes.ts";
import { callTool, toolContext } from "../helpers/tool-context.ts";
import { waitUntil } from "../helpers/wait-until.ts";

async function bash(
  command: string,
  options: { context?: ToolContext; timeoutMs?: number; workdir?: string } = {},
) {
  const { context = toolContext(), ...input } = options;
  return callTool(context, "bash", { command, ...input });
}

function recoverBash(context: ToolContext, command: string) {
  const argumentsText = JSON.stringify({ command });
  const later = { ...context, epoch: context.epoch + 1 };
  return recoverCall({
    tools: builtInTools(),
    name: "bash",
    argumentsText,
    context: later,
    startedEpoch: context.epoch,
  });
}

describe("the end of a command is told", () => {
  test.each([
    ["kill -9 $$", "(no output, ended by SIGKILL (exit code 137))"],
    ["exit 1", "(no output, exit code 1)"],
    ["true", "(no output, exit 0)"],
    ["echo hi", "hi"],
    ["echo hi; exit 3", "hi\n[exit code 3]"],
    ["false | cat", "[exit codes of the last pipeline: 1 0]"],
  ])("%s", async (command, content) => {
    expect((await bash(command)).content).toBe(content);
  });

  test("a crash and a failed allocation are failures with their messages", async () => {
    expect(await bash('bash -c "kill -SEGV \\$\\$"')).toMatchObject({
      isError: true,
      note: "SIGSEGV",
      content: expect.stringContaining("139"),
    });
    const output = await bash(
      "(ulimit -v 200000; python3 -c 'x=bytearray(10**9)' || node -e 'process.exit(1)')",
    );
    expect(output.isError).toBe(true);
    expect(output.content).toMatch(/\[exit code|ended by/);
  });

  test("a time-out is said with its length, warns off interactive programs and keeps the output", async () => {
    const { content, isError } = await bash("echo partial; sleep 30", { timeoutMs: 300 });
    expect(isError).toBe(true);
    expect(content).toMatch(/^partial\n\[timed out after 0.3 s, last output [\d.]+ s before;.*editors/);
  });

  test("silence is ended too, however often there was output before, and said apart from a time-out", async () => {
    const context = toolContext({ commandSilenceMs: 700 });
    const { content, isError, note } = await bash("for i in 1 2 3 4; do echo $i; sleep 0.4; done; sleep 30", {
      context,
    });
    expect(content).toMatch(/^1\n2\n3\n4\n\[no output for 0.7 s; the command and what it started were ended/);
    expect({ isError, note }).toEqual({ isError: true, note: "no output for 0.7 s" });
  });
});

describe("output is made readable", () => {
  test.each([
    ["printf '10%%\\r50%%\\r100%%\\ndone\\n'", "100%\ndone"],
    ["printf '\\033[31mred\\033[0m\\n'", "red"],
    ["printf 'caf\\xe9 is here\\n'", "caf\ufffd is here"],
    ["printf 'one two three four\\0five six seven eight\\n'", "one two three four\u2400five six seven eight"],
    ["printf 'line\\r\\nnext\\r\\n'", "line\nnext"],
  ])("%s", async (command, content) => {
    expect((await bash(command)).content).toBe(content);
  });

  test("binary output is named, not shown", async () => {
    expect((await bash("head -c 5000 /dev/zero")).content).toMatch(
      /^\[binary output, 5000 bytes, sha256 [0-9a-f]{64}, not shown; it is in .*\.log\]$/,
    );
  });

  test("binary output is named by its kind, and by a hash that tells whether it changed", async () => {
    const script = "printf '\\037\\213'; head -c 3000000 /dev/zero";
    const { content } = await bash(script);
    const hash = execFileSync("bash", ["-c", `(${script}) | sha256sum`], { encoding: "utf8" }).slice(0, 64);
    expect(content).toContain(`[binary output, gzip, 3000002 bytes, sha256 ${hash}, not shown`);
  });

  test("a long output keeps head and tail, says what is gone, and read_file pages the rest", async () => {
    const context = toolContext({ maxResultChars: 2_000 });
    const { content } = await bash("seq 1 100000", { context });
    expect(content.length).toBeLessThanOrEqual(2_000);
    expect(content).toMatch(
      /^1\n2\n.*characters, \d+ lines left out; the whole output is in .*99999\n100000$/s,
    );
    const file = /the whole output is in (\S+),/.exec(content)?.[1] ?? "";
    const page = await callTool(context, "read_file", { path: file, offset: 50_000, limit: 2 });
    expect(page.content).toMatch(/^50000\n50001\n/);
  });

  test("one line of 5 MB stays within the cap", async () => {
    const context = toolContext({ maxResultChars: 2_000 });
    writeFileSync(path.join(context.workspace, "bundle.js"), "x".repeat(5_000_000));
    const { content } = await bash("cat bundle.js", { context });
    expect(content.length).toBeLessThanOrEqual(2_000);
    expect(content).toContain("5000000 bytes in all");
  });
});

describe("working directory", () => {
  test("where a command ended is said if it went elsewhere, also where it failed", async () => {
    const context = toolContext();
    const ended = (where: string) => `[ended in ${where}; cd does not last]`;
    const { content } = await bash("mkdir -p sub/deep; cd sub; (cd deep); exit 4", { context });
    expect(content).toBe(`(no output, exit code 4)\n${ended("sub")}`);
    const away = await bash("echo x; cd /usr", { context: { ...context, callId: "1.2" } });
    expect(away.content).toBe(`x\n${ended("/usr")}`);
    const back = await bash("cd ..", { context: { ...context, callId: "1.3" }, workdir: "sub" });
    expect(back.content).toContain(ended("."));
    const stayed = await bash("cd sub; cd ..", { context: { ...context, callId: "1.4" } });
    expect(stayed.content).toBe("(no output, exit 0)");
  });

  test("cd does not last, workdir is relative to the workspace", async () => {
    const context = toolContext();
    mkdirSync(path.join(context.workspace, "sub"));
    expect((await bash("cd sub", { context })).note).toBe("exit 0");
    expect((await bash("pwd", { context: { ...context, callId: "1.2" } })).content).toBe(context.workspace);
    const inSub = await bash("pwd", { context: { ...context, callId: "1.3" }, workdir: "sub" });
    expect(inSub.content).toBe(path.join(context.workspace, "sub"));
  });

  test("a deleted workspace is said and made again, so that later commands work", async () => {
    const context = toolContext();
    expect((await bash('rm -rf "$PWD"; echo gone', { context })).content).toBe("gone");
    const second = await bash("echo hi", { context: { ...context, callId: "2.1" } });
    expect(second.content).toMatch(/was missing and has been created again, empty\]\nhi$/);
    const third = await bash("mkdir -p sub && cd sub && pwd", { context: { ...context, callId: "3.1" } });
    expect(third.content).toBe(`${path.join(context.workspace, "sub")}\n[ended in sub; cd does not last]`);
  });

  test("a missing workdir is named", async () => {
    const output = await bash("echo hi", { workdir: "nowhere" });
    expect(output).toMatchObject({
      isError: true,
      content: expect.stringContaining("working directory is missing"),
    });
  });
});

describe("aborts", () => {
  async function abortMidway(kind: "cancel" | "time_limit" | "shutdown" | "lease_lost") {
    const controller = new AbortController();
    const context = toolContext({ signal: controller.signal });
    const seconds = `305.${process.pid}${Math.random().toString().slice(2, 10)}`;
    const result = bash(`echo before; bash -c "sleep ${seconds}; :"; echo y`, { context });
    const outcome = result.catch((thrown: unknown) => thrown);
    await waitUntil(() => processesWith(`sleep ${seconds}`).length > 0, {
      timeoutMs: 3_000,
      what: "the sleep runs",
    });
    const reason = new RunAborted(kind);
    controller.abort(reason);
    return { outcome: await outcome, reason, left: processesWith(`sleep ${seconds}`), context };
  }

  test.each(["cancel", "time_limit"] as const)("%s ends the command and keeps its output", async (kind) => {
    const { outcome, left } = await abortMidway(kind);
    expect(outcome).toMatchObject({
      isError: true,
      content: expect.stringMatching(/^before\n\[the command was ended/),
    });
    expect(left).toEqual([]);
  });

  test.each(["shutdown", "lease_lost"] as const)("%s leaves the command to the next owner", async (kind) => {
    const { outcome, reason, left, context } = await abortMidway(kind);
    expect(outcome).toBe(reason);
    expect(left).not.toEqual([]);
    await context.environment.kill({ base: path.join(context.calls, "1.1.1"), outputFile: "" });
  });
});

describe("recovery", () => {
  async function startOnly(context: ToolContext, script: string) {
    const files = {
      base: path.join(context.calls, "1.1.1"),
      outputFile: path.join(context.outputs, "1.1.1.log"),
    };
    const { workspace: cwd, env } = context;
    await context.environment.start({ ...files, script, cwd, env, timeoutMs: 10_000, silenceMs: 10_000 });
    // Who looks earlier than that takes the start file, and the command never runs.
    await waitUntil(() => existsSync(`${files.base}.pid`), { timeoutMs: 3_000, what: "the command runs" });
    return files;
  }

  test("a command that never started is run", async () => {
    expect(await recoverBash(toolContext(), "echo hi")).toEqual({ kind: "run" });
  });

  test("a finished command is harvested, not run again", async () => {
    const context = toolContext();
    await bash("echo x >> ran; cat ran; exit 4", { context });
    const recovery = await recoverBash(context, "echo x >> ran; cat ran; exit 4");
    expect(recovery).toMatchObject({ kind: "done", output: { content: "x\n[exit code 4]" } });
    expect(readFileSync(path.join(context.workspace, "ran"), "utf8")).toBe("x\n");
  });

  test("a running command is adopted", async () => {
    const context = toolContext();
    await startOnly(context, "sleep 0.5; echo done");
    expect(await recoverBash(context, "x")).toMatchObject({ kind: "done", output: { content: "done" } });
  });

  test("an adopted command whose supervisor is killed afterwards is unknown too", async () => {
    const context = toolContext();
    const files = await startOnly(context, "echo before; sleep 20");
    await waitUntil(() => existsSync(files.outputFile) && readFileSync(files.outputFile, "utf8") !== "", {
      timeoutMs: 3_000,
      what: "output",
    });
    const { environment } = context;
    let isAdopted = false;
    const watched = {
      ...environment,
      wait: (...args: Parameters<typeof environment.wait>) => {
        isAdopted = true;
        return environment.wait(...args);
      },
    };
    const recovery = recoverBash({ ...context, environment: watched }, "x");
    await waitUntil(() => isAdopted, { timeoutMs: 3_000, what: "it is adopted" });
    process.kill(-Number.parseInt(readFileSync(`${files.base}.start`, "utf8"), 10), "SIGKILL");
    expect(await recovery).toMatchObject({ kind: "unknown", detail: expect.stringContaining("before") });
    expect(processesWith(files.base)).toEqual([]);
  });

  test("a command whose supervisor was killed is unknown, with its output, and nothing of it runs on", async () => {
    const context = toolContext();
    const files = await startOnly(context, "echo before; sleep 2; touch late");
    await waitUntil(() => existsSync(files.outputFile) && readFileSync(files.outputFile, "utf8") !== "", {
      timeoutMs: 3_000,
      what: "output",
    });
    process.kill(-Number.parseInt(readFileSync(`${files.base}.start`, "utf8"), 10), "SIGKILL");
    const recovery = await recoverBash(context, "x");
    const content = expect.stringMatching(/started at \d{4}-.*before/s);
    expect(recovery).toMatchObject({ kind: "unknown", detail: content });
    await expect(context.environment.find(files)).resolves.toMatchObject({ state: "lost" });
    expect(processesWith(files.base)).toEqual([]);
    rmSync(files.outputFile);
  });
});
