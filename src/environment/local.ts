import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { canSupervise } from "../platform.ts";
import {
  readLeader,
  readResult,
  readStart,
  refuseStart,
  type StartFile,
  unknownResult,
} from "./control-files.ts";
import { createGroups, membersOf, removeGroups } from "./control-groups.ts";
import type { Command, CommandResult, CommandState, Environment } from "./environment.ts";
import { defaultLimits, type Limits, limitScript, readGroups } from "./limits.ts";
import { findMembers, isAlive, type ProcessIdentity, sendSignal } from "./processes.ts";

type Files = Pick<Command, "base" | "outputFile">;

/** A command that has written more than this is ended; its output says so. */
const maxOutputBytes = 100_000_000;
/** How often the files of a command that another process started are looked at. */
const pollMs = 100;
/** A supervisor writes its start file at once after creating it; without content after this it died in between. */
const startWriteMs = 1_000;
const killPollMs = 30;
/** What is tried to end a command, in order. */
const killPhases = [
  { signal: "SIGTERM", includesSupervisor: false, graceMs: 2_000 },
  { signal: "SIGKILL", includesSupervisor: false, graceMs: 1_000 },
  { signal: "SIGKILL", includesSupervisor: true, graceMs: 1_000 },
] as const;

/** Runs commands on this machine, each under its own supervisor process. Needs Linux: /proc, setsid and bash. */
export function localEnvironment({
  platform = process.platform,
  limits = defaultLimits,
}: {
  platform?: NodeJS.Platform;
  limits?: Limits;
} = {}): Environment {
  const children = new Map<string, ChildProcess>();
  return {
    name: "local",
    async start(command) {
      if (!canSupervise(platform)) throw new Error(`shell commands need Linux, this is ${platform}`);
      await start({ command, children, limits });
    },
    wait: (files, signal) => wait({ files, signal, children }),
    kill,
    find,
    hasRunning,
  };
}

async function start(options: {
  command: Command;
  children: Map<string, ChildProcess>;
  limits: Limits;
}): Promise<void> {
  const { command, children } = options;
  const { base, outputFile, cwd, timeoutMs, silenceMs } = command;
  await mkdir(path.dirname(base), { recursive: true });
  await mkdir(path.dirname(outputFile), { recursive: true });
  // A file, not an argument: arguments have a length limit.
  await writeFile(`${base}.sh`, command.script);
  const groups = await createGroups(base, options.limits);
  await writeFile(`${base}.limits`, await limitScript(options.limits, groups));
  const supervisor = fileURLToPath(new URL("./supervisor.sh", import.meta.url));
  const bounds = [Math.ceil(timeoutMs), Math.ceil(silenceMs), maxOutputBytes].map(String);
  const child = spawn("sh", [supervisor, "supervise", base, outputFile, cwd, ...bounds], {
    cwd: "/",
    env: command.env,
    detached: true,
    stdio: "ignore",
  });
  await once(child, "spawn");
  child.unref();
  children.set(base, child);
  child.once("exit", () => children.delete(base));
}

async function wait(options: {
  files: Files;
  signal: AbortSignal;
  children: Map<string, ChildProcess>;
}): Promise<CommandResult> {
  const { files, signal, children } = options;
  for (;;) {
    signal.throwIfAborted();
    const result = await readResult(files);
    if (result !== undefined) return result;
    const child = children.get(files.base);
    if (child !== undefined) {
      await untilExit(child, signal);
    } else if (await isSupervised(files.base)) {
      await sleep(pollMs, undefined, { signal }).catch(() => signal.throwIfAborted());
    } else {
      // It may have ended between the two looks.
      return (await readResult(files)) ?? unknownResult(files);
    }
  }
}

async function untilExit(child: ChildProcess, signal: AbortSignal): Promise<void> {
  // While somebody waits, the process must not end because nothing else is left to do.
  child.ref();
  try {
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit", { signal });
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    child.unref();
  }
}

async function isSupervised(base: string): Promise<boolean> {
  const startFile = await readSettledStart(base);
  return startFile.kind === "started" && (await isAlive(startFile.supervisor));
}

async function find(files: Files): Promise<CommandState> {
  const { base } = files;
  const finished = await readResult(files);
  if (finished !== undefined) return { state: "finished", result: finished };
  if (await refuseStart(base)) {
    await removeGroups(await readGroups(base));
    return { state: "not_started" };
  }
  const startFile = await readSettledStart(base);
  if (startFile.kind === "refused") return { state: "not_started" };
  if (startFile.kind === "started" && (await isAlive(startFile.supervisor))) {
    return { state: "running", startedAt: startFile.startedAt };
  }
  const justFinished = await readResult(files);
  if (justFinished !== undefined) return { state: "finished", result: justFinished };
  const startedAt = startFile.kind === "missing" ? null : startFile.startedAt;
  return { state: "lost", startedAt };
}

async function hasRunning(folder: string): Promise<boolean> {
  const names = new Set(await readdir(folder).catch(() => []));
  for (const name of names) {
    const base = name.replace(/\.start$/, "");
    if (base === name || names.has(`${base}.exit`)) continue;
    const startFile = await readStart(path.join(folder, base));
    if (startFile.kind === "started" && (await isAlive(startFile.supervisor))) return true;
  }
  return false;
}

/** The start file, after its writer had time to write it. */
async function readSettledStart(base: string): Promise<StartFile> {
  const deadline = performance.now() + startWriteMs;
  for (;;) {
    const startFile = await readStart(base);
    if (startFile.kind !== "unwritten" || performance.now() > deadline) return startFile;
    await sleep(killPollMs);
  }
}

async function kill({ base }: Files): Promise<void> {
  if (await refuseStart(base)) return;
  const groups = await readGroups(base);
  for (const phase of killPhases) {
    if (await endProcesses({ base, groups }, phase)) return removeGroups(groups);
  }
  throw new Error(`the command ${path.basename(base)} could not be ended: its processes survive SIGKILL`);
}

/** Signals each process of the command once and looks until none is left; true when that came within the grace. */
async function endProcesses(
  { base, groups }: { base: string; groups: string[] },
  phase: (typeof killPhases)[number],
): Promise<boolean> {
  const signalled = new Set<string>();
  const deadline = performance.now() + phase.graceMs;
  for (;;) {
    const inGroups = await membersOf(groups);
    const members = await findMembers(await readLeader(base), `PAWL_CALL=${base}`, inGroups);
    const supervisor = await getLivingSupervisor(base);
    if (members.length === 0 && supervisor === undefined) return true;
    if (performance.now() > deadline) return false;
    // Its group holds the watchdog too. It is spared at first, because it records the end.
    if (supervisor !== undefined && phase.includesSupervisor) sendSignal(-supervisor.pid, phase.signal);
    for (const { pid, startTicks } of members) {
      if (signalled.has(`${pid} ${startTicks}`)) continue;
      signalled.add(`${pid} ${startTicks}`);
      sendSignal(pid, phase.signal);
    }
    await sleep(killPollMs);
  }
}

async function getLivingSupervisor(base: string): Promise<ProcessIdentity | undefined> {
  const startFile = await readStart(base);
  if (startFile.kind !== "started") return undefined;
  return (await isAlive(startFile.supervisor)) ? startFile.supervisor : undefined;
}
