import type { Redis, RedisOptions } from "ioredis";
import { ConfigError, messageOf } from "../errors.ts";
import { createWaiters } from "./waiters.ts";

export interface RedisConnection {
  client: Redis;
  /** Host and port, without the password: safe to show. */
  place: string;
  /** Rejects when the connection is not up before the abort. */
  whenReady(signal: AbortSignal): Promise<void>;
  /** Reports an error that the server answered with; a repetition and errors of an outage are left out. */
  report(error: unknown): void;
  /** Drops a connection that is up and connects again. */
  reconnect(): void;
  /** From here on nothing is reported. */
  markClosed(): void;
  disconnect(): void;
}

const longestRetryMs = 1_000;
const connectTimeoutMs = 2_000;
/** A socket whose other end does not answer the goodbye is destroyed after this. */
const disconnectTimeoutMs = 500;
const keepAliveMs = 10_000;

/** Connects in the background and stays connected. Throws ConfigError when the URL is none of Redis. */
export async function openRedis(options: {
  url: string;
  role: "producer" | "consumer";
  onError: (error: Error) => void;
}): Promise<RedisConnection> {
  const { url, role, onError } = options;
  const place = placeOf(url);
  const { Redis } = await import("ioredis");
  const client = new Redis(url, settings);
  const waiters = createWaiters();
  let isClosed = false;
  let isOut = false;
  // The first error of the newest attempt to connect: a wrong password makes more errors after its own.
  let problem: string | undefined;
  let isProblemOld = true;
  let lastReport: string | undefined;

  function tell(message: string, cause?: unknown): void {
    if (isClosed || message === lastReport) return;
    lastReport = message;
    onError(new Error(message, { cause }));
  }

  function report(error: unknown): void {
    if (client.status !== "ready" || isConnectionError(error)) return;
    tell(`Redis at ${place} refused a command: ${messageOf(error)}`, error);
  }

  client.on("error", (error) => {
    if (isProblemOld) problem = messageOf(error);
    isProblemOld = false;
  });
  client.on("close", () => {
    isProblemOld = true;
    if (isOut) return;
    isOut = true;
    const reason = problem ?? "the connection was closed";
    tell(
      `Redis at ${place} cannot be reached (${reason}); until it is back, workers look for runs by themselves`,
    );
  });
  client.on("ready", () => {
    waiters.wakeAll();
    isOut = false;
    problem = undefined;
    lastReport = undefined;
    if (role === "producer") void warnOfEviction(client, (message) => tell(`Redis at ${place} ${message}`));
  });

  return {
    client,
    place,
    report,
    whenReady: async (signal) => {
      if (client.status !== "ready" && !isClosed) await waiters.wait(Number.POSITIVE_INFINITY, signal);
      if (isClosed) throw new Error("the queue is closed");
      if (client.status !== "ready" || signal.aborted)
        throw new Error(`not connected (${problem ?? "no answer"})`);
    },
    reconnect: () => {
      if (client.status === "ready") client.disconnect(true);
    },
    markClosed: () => {
      isClosed = true;
      waiters.wakeAll();
    },
    disconnect: () => {
      isClosed = true;
      client.disconnect();
    },
  };
}

const settings: RedisOptions = {
  connectTimeout: connectTimeoutMs,
  disconnectTimeout: disconnectTimeoutMs,
  keepAlive: keepAliveMs,
  // A command that an outage interrupts is sent again after it, which BullMQ asks for.
  maxRetriesPerRequest: null,
  retryStrategy: (times) => Math.min(times * 100, longestRetryMs),
  // A server that lost its rank keeps its connections; the address leads to the new one.
  reconnectOnError: (error) => error.message.includes("READONLY"),
};

/** The text is not repeated where it is wrong: a password may stand anywhere in it. */
function placeOf(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (!parsed?.hostname || !["redis:", "rediss:"].includes(parsed.protocol)) {
    throw new ConfigError(
      `expected the queue as redis://host:port or rediss://host:port, got another text; set PAWL_QUEUE`,
    );
  }
  return `${parsed.hostname}:${parsed.port || 6379}`;
}

/** Sockets fail with a code; what the server refuses has none. */
function isConnectionError(error: unknown): boolean {
  return error instanceof Error && ("code" in error || error.message === "Connection is closed.");
}

/** An eviction would drop parts of BullMQ's records at random. */
async function warnOfEviction(client: Redis, warn: (message: string) => void): Promise<void> {
  try {
    const policy = /maxmemory_policy:(\S+)/.exec(await client.info("memory"))?.[1];
    if (policy && policy !== "noeviction") {
      warn(`has maxmemory-policy ${policy} and may drop hints; set it to noeviction`);
    }
  } catch {
    // Some hosted servers refuse INFO; the policy stays unknown then.
  }
}
