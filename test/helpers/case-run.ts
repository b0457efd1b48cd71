import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import Database from "better-sqlite3";
import { type CaseReply, type CaseRequest, type CaseServer, startCaseServer } from "./case-server.ts";
import { mainFile } from "./command-line.ts";
import { waitUntil } from "./wait-until.ts";

export interface PlayedCase {
  id: string;
  replies: CaseReply[];
  /** The last reply is sent again and again. */
  isRepeated?: boolean;
  /** Done to the working directory while no worker lives. */
  meddle?: (folder: string) => void;
}

/** What became of a case. */
export interface Played {
  /** The request behind its replies; undefined where the run had ended by then. */
  next: CaseRequest | undefined;
  /** The first request after the worker was killed and another one took over. */
  resumed: CaseRequest | undefined;
  /** Requests in all, the one that the kill repeats not counted. */
  requests: number;
  run: { status: string; reason: string | null; result: string | null; error: string | null };
  /** Bodies of the stored messages. */
  stored: Record<string, unknown>[];
  /** What stands in a file of its working directory; an empty text where there is none. */
  file(name: string): string;
}

const limitMs = 120_000;

/**
 * Plays cases through a real worker: a run each, all at once. The worker is killed with SIGKILL when every run has ended or
 * waits for the request behind its replies, and another worker brings them to their end.
 */
export async function playCases(
  cases: PlayedCase[],
  options: { isStreaming: boolean; env?: Record<string, string> },
): Promise<Map<string, Played>> {
  const folder = mkdtempSync(path.join(os.tmpdir(), "pawl-cases-"));
  const server = await startCaseServer(cases, options);
  const env = {
    PAWL_HOME: path.join(folder, "data"),
    OPENAI_BASE_URL: server.url,
    OPENAI_MODEL: "m",
    ...options.env,
  };
  try {
    await enqueue(cases, folder, env);
    const worker = pawl(["worker", "--concurrency", String(cases.length)], folder, env);
    const isThere = (id: string) => server.isHeld(id) || isTerminal(readRun(env.PAWL_HOME, id).status);
    await waitUntil(() => cases.every(({ id }) => isThere(id)), {
      timeoutMs: limitMs,
      what: "every case is there",
    });
    worker.child.kill("SIGKILL");
    await worker.ended;
    const before = new Map(cases.map(({ id }) => [id, server.requestsOf(id).length]));
    for (const { id, meddle } of cases) meddle?.(path.join(folder, id));
    server.release();
    const drained = pawl(["worker", "--drain", "--concurrency", String(cases.length)], folder, env);
    if ((await drained.ended) !== 0) throw new Error(drained.stderr());
    return new Map(
      cases.map(({ id }) => [
        id,
        gather({ id, server, folder, home: env.PAWL_HOME, before: before.get(id) ?? 0 }),
      ]),
    );
  } finally {
    await server.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function enqueue(cases: PlayedCase[], folder: string, env: Record<string, string>): Promise<void> {
  const lines = cases.map(({ id }) => {
    mkdirSync(path.join(folder, id));
    return JSON.stringify({ key: id, prompt: `Do the work of CASE=${id}.`, dir: path.join(folder, id) });
  });
  writeFileSync(path.join(folder, "tasks.jsonl"), lines.join("\n"));
  const enqueued = pawl(["enqueue", "--file", "tasks.jsonl"], folder, env);
  if ((await enqueued.ended) !== 0) throw new Error(enqueued.stderr());
}

function pawl(words: string[], cwd: string, env: Record<string, string>) {
  const child = spawn(process.execPath, [mainFile, ...words], {
    cwd,
    env: { PATH: process.env.PATH ?? "", HOME: cwd, ...env },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let stderr = "";
  child.stderr.on("data", (chunk) => (stderr += chunk));
  const timer = setTimeout(() => child.kill("SIGKILL"), limitMs);
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  void ended.then(() => clearTimeout(timer));
  return { child, ended, stderr: () => stderr.slice(-2000) };
}

function gather(from: {
  id: string;
  server: CaseServer;
  folder: string;
  home: string;
  before: number;
}): Played {
  const { id, server, folder, home, before } = from;
  const requests = server.requestsOf(id);
  const isHeld = server.isHeld(id);
  const names = readdirSync(path.join(folder, id));
  const files = new Map(names.map((name) => [name, readFileSync(path.join(folder, id, name), "utf8")]));
  const { stored, ...run } = readRun(home, id);
  return {
    next: isHeld ? requests[before - 1] : undefined,
    resumed: requests[before],
    requests: requests.length - (isHeld ? 1 : 0),
    run,
    stored,
    file: (name) => files.get(name) ?? "",
  };
}

function isTerminal(status: string): boolean {
  return ["succeeded", "failed", "cancelled"].includes(status);
}

function readRun(home: string, key: string): Played["run"] & Pick<Played, "stored"> {
  const database = new Database(path.join(home, "pawl.db"), { readonly: true });
  try {
    const row = database.prepare("SELECT id, status, reason, outcome FROM runs WHERE key = ?").get(key) as {
      id: string;
      status: string;
      reason: string | null;
      outcome: string | null;
    };
    const bodies = database
      .prepare("SELECT body FROM messages WHERE run_id = ? ORDER BY seq")
      .pluck()
      .all(row.id) as string[];
    const { result = null, error = null } = JSON.parse(row.outcome ?? "{}");
    const { status, reason } = row;
    return { status, reason, result, error, stored: bodies.map((body) => JSON.parse(body)) };
  } finally {
    database.close();
  }
}
