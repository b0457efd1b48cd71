import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import type Database from "better-sqlite3";
import { onTestFinished } from "vitest";
import { waitUntil } from "./wait-until.ts";

const builtMain = path.join(import.meta.dirname, "..", "..", "dist", "cli", "main.js");
const endTimeoutMs = 30_000;

/** A real `pawl` process and what it wrote so far. */
export interface PawlProcess {
  child: ChildProcess;
  pid: number;
  stdout(): string;
  stderr(): string;
  /** Resolves when it has ended; fails after half a minute. */
  ended(timeoutMs?: number): Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  /** Resolves when a line of stderr holds the text. */
  says(text: string): Promise<void>;
  /** Resolves when a SIGSTOP has taken effect; fails after half a minute. */
  stopped(): Promise<void>;
  /**
   * Stops it with SIGSTOP, at a moment when it is not in the middle of a write to `database`: there it would hold up
   * everybody. Fails after half a minute.
   */
  stopOutsideOfWrites(database: Database.Database): Promise<void>;
}

/** Where and how to start `pawl`; `main` is the file to run where it is not the one that was built. */
export interface PawlOptions {
  cwd: string;
  env: Record<string, string>;
  main?: string | undefined;
}

/** Starts `pawl` as a user would. It is killed when the test ends, if it still runs. */
export function startPawl(args: string[], options: PawlOptions): PawlProcess {
  const env = { PATH: process.env.PATH ?? "", HOME: options.cwd, ...options.env };
  const child = spawn(process.execPath, [options.main ?? builtMain, ...args], {
    cwd: options.cwd,
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk) => (stdout += chunk));
  child.stderr.on("data", (chunk) => (stderr += chunk));
  const closed = new Promise<void>((resolve) => child.on("close", () => resolve()));
  let isClosed = false;
  void closed.then(() => (isClosed = true));
  onTestFinished(async () => {
    if (isClosed) return;
    child.kill("SIGKILL");
    await closed;
  });
  const stopped = () =>
    waitUntil(() => isStopped(child.pid ?? 0), {
      timeoutMs: endTimeoutMs,
      what: `pawl ${args.join(" ")} is stopped`,
    });
  return {
    child,
    pid: child.pid ?? 0,
    stdout: () => stdout,
    stderr: () => stderr,
    async ended(timeoutMs = endTimeoutMs) {
      await waitUntil(() => isClosed, {
        timeoutMs,
        what: `pawl ${args.join(" ")} ends; it said: ${stderr.slice(-2000)}`,
      });
      return { code: child.exitCode, signal: child.signalCode };
    },
    stopped,
    stopOutsideOfWrites: (database) =>
      waitUntil(
        async () => {
          child.kill("SIGSTOP");
          await stopped();
          if (isWritable(database)) return true;
          child.kill("SIGCONT");
          return false;
        },
        { timeoutMs: endTimeoutMs, what: `pawl ${args.join(" ")} is stopped outside of a write` },
      ),
    says: (text) =>
      waitUntil(() => stderr.includes(text), {
        timeoutMs: endTimeoutMs,
        what: `pawl ${args.join(" ")} says ${text}`,
      }),
  };
}

/** Runs `pawl` to its end. */
export async function runPawl(args: string[], options: PawlOptions) {
  const started = startPawl(args, options);
  const { code, signal } = await started.ended();
  return { code, signal, stdout: started.stdout(), stderr: started.stderr() };
}

function isStopped(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).startsWith("T");
  } catch {
    return false;
  }
}

function isWritable(database: Database.Database): boolean {
  try {
    database.exec("BEGIN IMMEDIATE; ROLLBACK");
    return true;
  } catch {
    return false;
  }
}

/** Processes whose environment holds the text: commands that belong to a data directory, however far they have run off. */
export function processesOf(text: string): number[] {
  return readdirSync("/proc").flatMap((entry) => {
    if (!/^\d+$/.test(entry) || Number(entry) === process.pid) return [];
    try {
      return readFileSync(`/proc/${entry}/environ`, "utf8").includes(text) ? [Number(entry)] : [];
    } catch {
      return [];
    }
  });
}
