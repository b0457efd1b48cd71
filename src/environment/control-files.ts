import { existsSync } from "node:fs";
import { link, mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import type { Command, CommandResult } from "./environment.ts";
import type { ProcessIdentity } from "./processes.ts";

/** What the start file says. `unwritten`: created, but its content is not there yet (or never will be). */
export type StartFile =
  | { kind: "missing" }
  | { kind: "refused" }
  | { kind: "unwritten"; startedAt: number }
  | { kind: "started"; startedAt: number; supervisor: ProcessIdentity };

type Files = Pick<Command, "base" | "outputFile">;

/** Content of a start file that somebody other than a supervisor created: the command never runs. */
const refusal = "refused\n";

export async function readStart(base: string): Promise<StartFile> {
  const file = `${base}.start`;
  const content = await getText(file);
  const startedAt = await getModifiedAt(file);
  if (content === undefined || startedAt === undefined) return { kind: "missing" };
  if (content === refusal) return { kind: "refused" };
  const supervisor = parseIdentity(content);
  return supervisor === undefined
    ? { kind: "unwritten", startedAt }
    : { kind: "started", startedAt, supervisor };
}

/** Takes the start file before any supervisor can; false where it exists. */
export async function refuseStart(base: string): Promise<boolean> {
  // Where it is there already no room is needed: a command can be found and ended on a full disk.
  if (existsSync(`${base}.start`)) return false;
  await mkdir(path.dirname(base), { recursive: true });
  const draft = `${base}.refused.${process.pid}`;
  await writeFile(draft, refusal);
  try {
    // A link is exclusive like O_EXCL and appears with its content.
    await link(draft, `${base}.start`);
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST") return false;
    throw error;
  } finally {
    await rm(draft, { force: true });
  }
}

/** The process that leads the command's group, once it runs. */
export async function readLeader(base: string): Promise<ProcessIdentity | undefined> {
  return parseIdentity((await getText(`${base}.pid`)) ?? "");
}

/** The recorded end of a command; undefined while there is none. */
export async function readResult({ base, outputFile }: Files): Promise<CommandResult | undefined> {
  const endedAt = await getModifiedAt(`${base}.exit`);
  const wroteAt = await getModifiedAt(outputFile);
  const match = /^(\d+) (\w+)\n$/.exec((await getText(`${base}.exit`)) ?? "");
  if (match === null) return undefined;
  const code = Number(match[1]);
  const signal = signalNames[code] ?? null;
  return {
    exitCode: signal === null ? code : null,
    signal,
    timedOut: match[2] === "time",
    fellSilent: match[2] === "silence",
    quietMs: endedAt === undefined || wroteAt === undefined ? null : Math.max(0, endedAt - wroteAt),
    finalFolder: (await getText(`${base}.cwd`))?.trimEnd() || null,
    outputFile,
  };
}

/** The result of a command whose end nobody recorded. */
export function unknownResult({ outputFile }: Files): CommandResult {
  const ended = { exitCode: null, signal: null, timedOut: false, fellSilent: false };
  return { ...ended, quietMs: null, finalFolder: null, outputFile };
}

/**
 * A shell reports death by signal n as 128 + n. Only signals that end programs in practice are named: 129, for one, is how
 * git reports wrong usage.
 */
const signalNames: Record<number, string> = {
  130: "SIGINT",
  131: "SIGQUIT",
  132: "SIGILL",
  133: "SIGTRAP",
  134: "SIGABRT",
  135: "SIGBUS",
  136: "SIGFPE",
  137: "SIGKILL",
  139: "SIGSEGV",
  141: "SIGPIPE",
  143: "SIGTERM",
  152: "SIGXCPU",
  153: "SIGXFSZ",
  159: "SIGSYS",
};

function parseIdentity(text: string): ProcessIdentity | undefined {
  const match = /^(\d+) (\d+)\n$/.exec(text);
  return match?.[2] === undefined ? undefined : { pid: Number(match[1]), startTicks: match[2] };
}

async function getText(file: string): Promise<string | undefined> {
  return readFile(file, "utf8").catch(() => undefined);
}

async function getModifiedAt(file: string): Promise<number | undefined> {
  return stat(file).then(
    (facts) => facts.mtimeMs,
    () => undefined,
  );
}
