import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import type { Command } from "../../src/environment/environment.ts";
import { localEnvironment } from "../../src/environment/local.ts";
import { processesWith } from "../helpers/processes.ts";
import { canMount, mountSmallDisk } from "../helpers/small-disk.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { waitUntil } from "../helpers/wait-until.ts";

const never = new AbortController().signal;

function commandOf(script: string, changes: Partial<Command> = {}): Command {
  const folder = temporaryFolder();
  return {
    base: path.join(folder, "calls", "1.1.1"),
    outputFile: path.join(folder, "outputs", "1.1.1.log"),
    script,
    cwd: folder,
    env: { PATH: process.env.PATH ?? "" },
    timeoutMs: 10_000,
    silenceMs: 10_000,
    ...changes,
  };
}

async function run(command: Command) {
  const environment = localEnvironment();
  await environment.start(command);
  const result = await environment.wait(command, never);
  return { ...result, output: readFileSync(command.outputFile, "utf8") };
}

/** A seconds argument no other process has, to find a sleep by. */
function uniqueSeconds(): string {
  return `300.${process.pid}${Math.random().toString().slice(2, 10)}`;
}

test("a command's output is merged in order and its exit code kept", async () => {
  const result = await run(commandOf("echo one; echo two >&2; echo three; exit 7"));
  expect(result).toMatchObject({ exitCode: 7, signal: null, timedOut: false });
  expect(result.output).toBe("one\ntwo\nthree\n");
});

test.each([
  ["kill -9 $$", "SIGKILL"],
  ['bash -c "kill -SEGV \\$\\$"', "SIGSEGV"],
])("death by signal is named: %s", async (script, signal) => {
  expect(await run(commandOf(script))).toMatchObject({ exitCode: null, signal });
});

test("exit code 129, git's for wrong usage, is no signal", async () => {
  expect(await run(commandOf("exit 129"))).toMatchObject({ exitCode: 129, signal: null });
});

test("stdin is closed and SIGINT has its default", async () => {
  const result = await run(
    commandOf("read -r x || echo no input; trap 'echo caught; exit 5' INT; kill -INT $$"),
  );
  expect(result).toMatchObject({ exitCode: 5, output: "no input\ncaught\n" });
});

test("a script longer than any argument may be runs", async () => {
  const result = await run(commandOf(`: '${"x".repeat(3_000_000)}'\necho done`));
  expect(result.output).toBe("done\n");
});

test("a failed stage of a pipeline is said, a reader that closes early is not", async () => {
  expect((await run(commandOf("false | cat"))).output).toContain("exit codes of the last pipeline: 1 0");
  expect((await run(commandOf("yes | head -1"))).output).toBe("y\n");
});

test("a background process does not delay the result and is ended with a note", async () => {
  const seconds = uniqueSeconds();
  const result = await run(commandOf(`sleep ${seconds} & echo x`));
  expect(result.output).toContain("left running in the background");
  expect(processesWith(seconds)).toEqual([]);
});

test("a background process that ignores TERM is ended too", async () => {
  const seconds = uniqueSeconds();
  await run(commandOf(`(trap '' TERM; sleep ${seconds}) & echo x`));
  expect(processesWith(seconds)).toEqual([]);
});

test("no process of a finished command is left, the watchdog's included", async () => {
  const command = commandOf("true");
  await run(command);
  await waitUntil(() => processesWith(command.base).length === 0, {
    timeoutMs: 2_000,
    what: "supervisor gone",
  });
});

test.each([
  ["children that ignore TERM", (s: string) => `trap '' TERM; (trap '' TERM; sleep ${s}) & sleep ${s}`],
  ["a subshell", (s: string) => `(sleep ${s}); echo x`],
  ["a child in another session", (s: string) => `setsid sleep ${s} & wait`],
  [
    "children in sessions of their own",
    (s: string) => `for n in 1 2 3 4 5; do setsid sleep ${s} & done; wait`,
  ],
])("the time limit ends %s", async (_title, script) => {
  const seconds = uniqueSeconds();
  const result = await run(commandOf(script(seconds), { timeoutMs: 300 }));
  expect(result).toMatchObject({ timedOut: true, exitCode: null });
  expect(processesWith(seconds)).toEqual([]);
});

test("a time limit that is over before the command has begun ends it all the same", async () => {
  const seconds = uniqueSeconds();
  const commands = Array.from({ length: 8 }, () => commandOf(`sleep ${seconds}`, { timeoutMs: 1 }));
  for (const result of await Promise.all(commands.map(run))) expect(result.timedOut).toBe(true);
  expect(processesWith(seconds)).toEqual([]);
});

test("a timed-out command keeps its partial output", async () => {
  const result = await run(commandOf("echo partial; sleep 30", { timeoutMs: 300 }));
  expect(result.output).toBe("partial\n");
});

test("endless output is stopped at its limit, and that is said", async () => {
  const result = await run(commandOf("yes"));
  expect(result.output.length).toBeLessThan(100_000_100);
  expect(result.output.slice(-60)).toContain("[stopped: the output passed 100000000 bytes]");
});

test("an abort of the wait rejects with its reason and leaves the command alone", async () => {
  const environment = localEnvironment();
  const command = commandOf("sleep 0.5; echo survived");
  await environment.start(command);
  const reason = new Error("shutdown");
  await expect(environment.wait(command, AbortSignal.abort(reason))).rejects.toBe(reason);
  await environment.wait(command, never);
  expect(readFileSync(command.outputFile, "utf8")).toBe("survived\n");
});

test.skipIf(!canMount())("kill ends a command on a full disk (needs to mount one)", async () => {
  const folder = path.join(temporaryFolder(), "small");
  const disk = mountSmallDisk(folder);
  const at = { base: path.join(folder, "1.1.1"), outputFile: path.join(folder, "1.1.1.log") };
  const seconds = uniqueSeconds();
  const command = commandOf(`sleep ${seconds}`, at);
  const environment = localEnvironment();
  await environment.start(command);
  const isRunning = () => processesWith(seconds).length > 0;
  await waitUntil(isRunning, { timeoutMs: 10_000, what: "it runs" });
  disk.fill();
  await environment.kill(command);
  expect(isRunning()).toBe(false);
  disk.free();
});

test("kill ends the group, what left it, and the supervisor", async () => {
  const seconds = uniqueSeconds();
  const environment = localEnvironment();
  const command = commandOf(`trap '' TERM; setsid sleep ${seconds} & sleep ${seconds} & echo up; wait`);
  await environment.start(command);
  await waitUntil(() => processesWith(seconds).length === 2, { timeoutMs: 2_000, what: "both sleeps run" });
  await environment.kill(command);
  expect(processesWith(seconds)).toEqual([]);
  expect(processesWith(command.base)).toEqual([]);
  expect(await environment.find(command)).toMatchObject({ state: "finished" });
});

test("whoever does not own a command can see that it runs, and changes nothing by looking", async () => {
  const environment = localEnvironment();
  const command = commandOf("sleep 300");
  const folder = path.dirname(command.base);
  expect(await environment.hasRunning(folder), "no such folder").toBe(false);
  await environment.start(command);
  const isSeen = () => environment.hasRunning(folder);
  await waitUntil(isSeen, { timeoutMs: 10_000, what: "it runs" });
  await environment.kill(command);
  expect(await environment.hasRunning(folder), "it has ended").toBe(false);
  const unstarted = path.join(folder, "2.1.1");
  expect(existsSync(`${unstarted}.start`)).toBe(false);
  expect(await environment.find({ ...command, base: unstarted })).toEqual({ state: "not_started" });
  expect(await environment.hasRunning(folder), "it never started").toBe(false);
});

test("a command that did not start never will", async () => {
  const environment = localEnvironment();
  const command = commandOf("echo ran");
  expect(await environment.find(command)).toEqual({ state: "not_started" });
  await environment.start(command);
  await environment.wait(command, never);
  expect(existsSync(command.outputFile)).toBe(false);
  expect(await environment.find(command)).toEqual({ state: "not_started" });
});

test("of many supervisors of one command exactly one runs it", async () => {
  const command = commandOf('echo ran >> "$PWD/ran"; sleep 0.2');
  const environments = Array.from({ length: 8 }, localEnvironment);
  await Promise.all(environments.map((environment) => environment.start(command)));
  await Promise.all(environments.map((environment) => environment.wait(command, never)));
  expect(readFileSync(path.join(command.cwd, "ran"), "utf8")).toBe("ran\n");
});

test("a start file without content, left by a crash, is lost and not awaited forever", async () => {
  const environment = localEnvironment();
  const command = commandOf("true");
  await environment.find(command);
  writeFileSync(`${command.base}.start`, "");
  expect(await environment.find(command)).toMatchObject({ state: "lost" });
});

test("a reused pid is not taken for the supervisor", async () => {
  const environment = localEnvironment();
  const command = commandOf("true");
  await environment.find(command);
  writeFileSync(`${command.base}.start`, `${process.pid} 1\n`);
  expect(await environment.find(command)).toMatchObject({ state: "lost" });
});

test("a command whose supervisor was killed is lost, and kill ends what is left of it", async () => {
  const seconds = uniqueSeconds();
  const environment = localEnvironment();
  const command = commandOf(`echo before; sleep ${seconds}`);
  await environment.start(command);
  await waitUntil(() => processesWith(seconds).length === 1, { timeoutMs: 2_000, what: "the sleep runs" });
  process.kill(-Number.parseInt(readFileSync(`${command.base}.start`, "utf8"), 10), "SIGKILL");
  expect(await environment.wait(command, never)).toMatchObject({
    exitCode: null,
    signal: null,
  });
  expect(await environment.find(command)).toMatchObject({ state: "lost", startedAt: expect.any(Number) });
  await environment.kill(command);
  expect(processesWith(seconds)).toEqual([]);
});

async function startInWorker(command: Command) {
  const fixture = path.join(import.meta.dirname, "../fixtures/start-command.ts");
  const args = ["--import", "jiti/register", fixture, JSON.stringify(command)];
  const worker = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  await once(worker.stdout, "data");
  // Who looks earlier than that takes the start file, and the command never runs.
  await waitUntil(() => existsSync(`${command.base}.pid`), { timeoutMs: 3_000, what: "the command runs" });
  worker.kill("SIGKILL");
  await once(worker, "exit");
}

test("after its worker was killed a running command is adopted by another process", async () => {
  const command = commandOf("sleep 0.7; echo done; exit 3");
  await startInWorker(command);
  const environment = localEnvironment();
  expect(await environment.find(command)).toMatchObject({ state: "running", startedAt: expect.any(Number) });
  expect(await environment.wait(command, never)).toMatchObject({ exitCode: 3 });
  expect(readFileSync(command.outputFile, "utf8")).toBe("done\n");
});

test("after its worker was killed a finished command is harvested by another process", async () => {
  const command = commandOf("echo once >> ran; exit 4");
  await startInWorker(command);
  await waitUntil(() => existsSync(`${command.base}.exit`), { timeoutMs: 2_000, what: "exit file" });
  expect(await localEnvironment().find(command)).toMatchObject({
    state: "finished",
    result: { exitCode: 4 },
  });
  expect(readFileSync(path.join(command.cwd, "ran"), "utf8")).toBe("once\n");
});

test("the time limit holds without any worker", async () => {
  const seconds = uniqueSeconds();
  const command = commandOf(`sleep ${seconds}`, { timeoutMs: 500 });
  await startInWorker(command);
  await waitUntil(() => existsSync(`${command.base}.exit`), { timeoutMs: 4_000, what: "exit file" });
  expect(processesWith(seconds)).toEqual([]);
});

test("the supervisor is valid POSIX sh", () => {
  execFileSync("sh", ["-n", path.join(import.meta.dirname, "../../src/environment/supervisor.sh")]);
});
