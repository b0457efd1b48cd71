import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { Redis } from "ioredis";
import { describe, test } from "vitest";
import { waitUntil } from "./wait-until.ts";

/** Ends the title of each suite that needs Redis; scripts/ci-summary.mjs and the notice about skipped tests look for it. */
export const redisMark = "(needs redis-server)";

const howToInstall = "install it with `apt-get install redis-server` or `brew install redis`";
const startTimeoutMs = 10_000;
const startAttempts = 3;

/** A real redis-server of the test's own: a spare port of 127.0.0.1, an append-only file in a temporary folder. */
export interface RedisServer {
  readonly url: string;
  readonly port: number;
  /** Ends it as a crash would. */
  kill(): Promise<void>;
  /** Starts it again on the same port, with what its file holds or without anything. */
  start(options?: { empty?: boolean }): Promise<void>;
  flush(): Promise<void>;
  /** SIGSTOP and SIGCONT: the connections stay, nothing answers. */
  freeze(): void;
  thaw(): void;
  command(name: string, ...args: (string | number)[]): Promise<unknown>;
  /** Kills it and removes its folder. */
  stop(): Promise<void>;
}

/** A suite that is skipped where redis-server is not installed, and fails there with PAWL_REQUIRE_REDIS=1. */
export function describeWithRedis(title: string, body: () => void): void {
  const marked = `${title} ${redisMark}`;
  if (hasRedisServer()) return void describe(marked, body);
  if (process.env.PAWL_REQUIRE_REDIS !== "1") return void describe.skip(marked, body);
  describe(marked, () => {
    test("redis-server is installed", () => {
      throw new Error(`PAWL_REQUIRE_REDIS=1 asks for redis-server, which is not installed: ${howToInstall}`);
    });
  });
}

/** What to print after a run in which these tests were skipped; nothing where they were only filtered out. */
export function skippedNotice(skippedTitles: string[]): string {
  if (skippedTitles.length === 0 || hasRedisServer()) return "";
  const lines = skippedTitles.map((title) => `  ${title}`);
  return [
    "",
    `Skipped ${skippedTitles.length} tests, because redis-server is not installed; ${howToInstall}:`,
    ...lines,
    "",
  ].join("\n");
}

export async function startRedis(options: { args?: string[] } = {}): Promise<RedisServer> {
  const dir = await mkdtemp(path.join(tmpdir(), "pawl-redis-"));
  const args = options.args ?? [];
  let { port, child } = await startOnSparePort(dir, args);
  const url = `redis://127.0.0.1:${port}`;
  const endWithTests = () => child.kill("SIGKILL");
  process.once("exit", endWithTests);

  async function command(name: string, ...commandArgs: (string | number)[]): Promise<unknown> {
    const client = new Redis(url, { lazyConnect: true, retryStrategy: () => null });
    try {
      return await client.call(name, ...commandArgs);
    } finally {
      client.disconnect();
    }
  }

  async function start({ empty = false } = {}): Promise<void> {
    if (empty) await rm(path.join(dir, "appendonlydir"), { recursive: true, force: true });
    child = await launch({ dir, port, args });
  }

  async function stop(): Promise<void> {
    process.off("exit", endWithTests);
    await end(child);
    await rm(dir, { recursive: true, force: true });
  }

  return {
    url,
    port,
    kill: () => end(child),
    start,
    flush: async () => void (await command("FLUSHALL")),
    freeze: () => void child.kill("SIGSTOP"),
    thaw: () => void child.kill("SIGCONT"),
    command,
    stop,
  };
}

/** A replica of another server of the test, which has all that it has. */
export async function startReplica(primary: RedisServer): Promise<RedisServer> {
  // Else the first copy is put off for five seconds.
  await primary.command("CONFIG", "SET", "repl-diskless-sync-delay", 0);
  const replica = await startRedis({ args: ["--replicaof", "127.0.0.1", String(primary.port)] });
  const isInStep = async () =>
    String(await replica.command("INFO", "replication")).includes("master_link_status:up");
  await waitUntil(isInStep, { timeoutMs: startTimeoutMs, what: "the replica follows" });
  return replica;
}

/** A port of 127.0.0.1 where nothing listens. */
export async function sparePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("expected a TCP address");
  return address.port;
}

function hasRedisServer(): boolean {
  return spawnSync("redis-server", ["--version"]).status === 0;
}

/** Another process may take the port between finding and using it, hence the attempts. */
async function startOnSparePort(dir: string, args: string[]): Promise<{ port: number; child: ChildProcess }> {
  for (let attempt = 1; ; attempt++) {
    const port = await sparePort();
    try {
      return { port, child: await launch({ dir, port, args }) };
    } catch (error) {
      if (attempt === startAttempts) throw error;
    }
  }
}

async function launch(options: { dir: string; port: number; args: string[] }): Promise<ChildProcess> {
  const { dir, port, args } = options;
  const settings = ["--bind", "127.0.0.1", "--port", String(port), "--dir", dir, "--appendonly", "yes"];
  const child = spawn("redis-server", [...settings, "--save", "", ...args], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  let output = "";
  child.stdout.on("data", (chunk) => {
    output += chunk;
  });
  try {
    await waitUntil(() => hasEnded(child) || output.includes("Ready to accept connections"), {
      timeoutMs: startTimeoutMs,
      what: "redis-server accepts connections",
    });
    if (hasEnded(child)) throw new Error(`redis-server ended at its start:\n${output}`);
    return child;
  } catch (error) {
    await end(child);
    throw error;
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (hasEnded(child)) return;
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}
