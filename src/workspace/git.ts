import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { execa } from "execa";
import { isWithoutRoom, saysDiskFull } from "../full-disk.ts";
import { withoutCredentials } from "../redact.ts";

/** Bounds of one git command: its time, what it may print, and the grace between TERM and KILL. */
const gitTimeoutMs = 120_000;
const maxGitOutputBytes = 64 * 1024 * 1024;
const killGraceMs = 2_000;

export interface GitOptions {
  cwd?: string;
  /** Set on top of the cleaned environment. */
  env?: Record<string, string>;
  input?: string | Uint8Array;
  /**
   * `user` reads the user's configuration (credentials, proxies, URL rewrites); `none` reads none but the git
   * directory's own, so that a result depends on nothing else.
   */
  config: "user" | "none";
  timeoutMs?: number;
  maxOutputBytes?: number;
  signal?: AbortSignal | undefined;
}

export interface GitResult {
  exitCode: number;
  /** One character a byte, so that any file name survives; `decodePath` makes it text. */
  stdout: string;
  stderr: string;
}

/** A git command that failed. The message is one line without credentials. */
export class GitError extends Error {
  override name = "GitError";
  readonly kind: "exit" | "timeout" | "output" | "missing";

  constructor(kind: GitError["kind"], message: string) {
    super(message);
    this.kind = kind;
  }
}

/** Runs git and returns its output without the last newline. Throws GitError, or the signal's reason. */
export async function git(args: string[], options: GitOptions): Promise<string> {
  const result = await tryGit(args, options);
  if (result.exitCode !== 0) throw await exitError(result.stderr, options);
  return result.stdout.replace(/\n$/, "");
}

/** What a failed command said; and where the disk was full, that it was: git does not always say so. */
export async function exitError(stderr: string, options: GitOptions): Promise<GitError> {
  const line = failureLine(stderr) || "git failed without a word";
  if (saysDiskFull(line)) return new GitError("exit", line);
  const isFull = saysDiskFull(stderr) || (await isWithoutRoom([options.cwd, options.env?.GIT_DIR]));
  return new GitError("exit", isFull ? `${line}: No space left on device` : line);
}

/** Runs git for NUL-separated output. */
export async function gitList(args: string[], options: GitOptions): Promise<string[]> {
  return (await git(args, options)).split("\0").filter((entry) => entry !== "");
}

/** Runs git where a non-zero exit code is an answer. */
export async function tryGit(args: string[], options: GitOptions): Promise<GitResult> {
  options.signal?.throwIfAborted();
  const timeoutMs = options.timeoutMs ?? gitTimeoutMs;
  const result = await execa("git", [...settings(options.config), ...args], {
    env: { ...cleanEnvironment(options.config), ...options.env },
    extendEnv: false,
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    ...(options.input === undefined ? { stdin: "ignore" as const } : { input: options.input }),
    ...(options.signal === undefined ? {} : { cancelSignal: options.signal }),
    timeout: timeoutMs,
    maxBuffer: options.maxOutputBytes ?? maxGitOutputBytes,
    forceKillAfterDelay: killGraceMs,
    // A session of its own: Ctrl-C at the terminal is ours to handle, and ssh finds no terminal to ask at.
    detached: true,
    encoding: "latin1",
    stripFinalNewline: false,
    reject: false,
  });
  options.signal?.throwIfAborted();
  if (result.timedOut)
    throw new GitError("timeout", `took longer than ${Math.round(timeoutMs / 1000)} seconds`);
  if (result.isMaxBuffer) throw new GitError("output", "printed too much");
  if (result.exitCode === undefined) throw notStarted(result.message ?? "", options.cwd, result.signal);
  return { exitCode: result.exitCode, stdout: result.stdout, stderr: result.stderr };
}

/** Text for people from a path as git printed it. */
export function decodePath(raw: string): string {
  return Buffer.from(raw, "latin1").toString("utf8");
}

/** NUL-separated input from paths as git printed them. */
export function encodeList(raw: string[]): Uint8Array {
  return Buffer.from(raw.map((entry) => `${entry}\0`).join(""), "latin1");
}

/** A path as git printed it, below a folder, for the file system. */
export function rawPath(folder: string, raw: string): Buffer {
  return Buffer.concat([Buffer.from(`${folder}/`), Buffer.from(raw, "latin1")]);
}

/** How to connect, which is the user's to say; everything else in GIT_* would redirect our commands. */
const connection = /^GIT_(SSH|SSH_COMMAND|SSH_VARIANT|PROXY_COMMAND|SSL_\w+)$/;

function cleanEnvironment(config: GitOptions["config"]): Record<string, string> {
  const kept = Object.entries(process.env).filter(
    ([name]) => (!name.startsWith("GIT_") || connection.test(name)) && name !== "LANGUAGE",
  );
  return {
    ...Object.fromEntries(kept.filter((entry): entry is [string, string] => entry[1] !== undefined)),
    LC_ALL: "C",
    GIT_TERMINAL_PROMPT: "0",
    GIT_ASKPASS: "",
    SSH_ASKPASS_REQUIRE: "never",
    GIT_OPTIONAL_LOCKS: "0",
    ...(config === "none"
      ? { GIT_CONFIG_NOSYSTEM: "1", GIT_CONFIG_GLOBAL: "/dev/null", GIT_ATTR_NOSYSTEM: "1" }
      : {}),
  };
}

function settings(config: GitOptions["config"]): string[] {
  const always = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
    // A transfer that stalls ends by itself, also when the worker that started it is gone.
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=60",
  ];
  const exact = ["core.attributesFile=/dev/null", "core.excludesFile=/dev/null", "core.autocrlf=false"];
  return (config === "none" ? [...always, ...exact] : always).flatMap((setting) => ["-c", setting]);
}

function notStarted(message: string, cwd: string | undefined, signal: string | undefined): GitError {
  if (signal !== undefined) return new GitError("exit", `git was ended by ${signal}`);
  if (cwd !== undefined && !existsSync(cwd)) return new GitError("exit", `no such folder: ${cwd}`);
  if (message.includes("ENOENT")) return new GitError("missing", "git is not installed or not on the PATH");
  return new GitError("exit", failureLine(message));
}

/** The line that says why: git's last `fatal:`, else its first `error:`, else the first line. */
function failureLine(stderr: string): string {
  const lines = decodePath(stderr)
    .split(/[\r\n]+/)
    .filter((line) => line.trim() !== "");
  const line =
    lines.find((each) => each.startsWith("fatal:")) ?? lines.find((each) => each.startsWith("error:"));
  return withoutCredentials((line ?? lines[0] ?? "").replace(/^(fatal|error): /, "").trim());
}

/** Removes a temporary index, and the lock that a git which was killed has left. */
export async function removeIndex(index: string): Promise<void> {
  for (const left of [index, `${index}.lock`]) await rm(left, { force: true });
}
