import { constants } from "node:fs";
import { access, mkdtemp, rm, statfs } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { execa } from "execa";
import { hasData, resolveDataPaths } from "../config/data-directory.ts";
import { resolveModelSettings } from "../config/model-settings.ts";
import { loadConfig } from "../config.ts";
import { openStore } from "../db/store.ts";
import { ConfigError, messageOf } from "../errors.ts";
import { print, printJson } from "./output.ts";

interface Check {
  name: string;
  ok: boolean;
  detail: string;
}

const oldestNode = 20;
const leastFreeBytes = 1024 ** 3;
const checkTimeoutMs = 5000;

/** `pawl doctor`: what a night's run needs, each with what was found; exit 1 if something is missing. */
export async function doctor(options: { json?: boolean; model?: boolean }): Promise<void> {
  if (options.model)
    throw new ConfigError(
      "--model is not built yet: pawl doctor checks the settings without asking the model",
    );
  const checks = [
    await checkNode(),
    await checkProgram("git", ["--version"]),
    await checkProgram("bash", ["--version"]),
    await checkData(),
    await checkModel(),
    await checkQueue(),
  ];
  if (options.json) printJson({ ok: checks.every((check) => check.ok), checks });
  else
    for (const { name, ok, detail } of checks)
      print(`${ok ? "ok     " : "MISSING"}  ${name.padEnd(8)} ${detail}`);
  if (!checks.every((check) => check.ok)) process.exitCode = 1;
}

async function checkNode(): Promise<Check> {
  const ok = Number(process.versions.node.split(".")[0]) >= oldestNode;
  return { name: "node", ok, detail: `${process.version}${ok ? "" : `, expected ${oldestNode} or newer`}` };
}

async function checkProgram(name: string, versionArguments: string[]): Promise<Check> {
  const result = await execa(name, versionArguments, {
    reject: false,
    timeout: checkTimeoutMs,
    stdin: "ignore",
  });
  const ok = result.exitCode === 0;
  return { name, ok, detail: ok ? (result.stdout.split("\n")[0] ?? "") : "not found: install it" };
}

async function checkData(): Promise<Check> {
  const paths = resolveDataPaths({ cwd: process.cwd(), env: process.env });
  try {
    let parent = paths.dataDir;
    if (hasData(paths)) await (await openStore({ file: paths.database })).close();
    else {
      parent = path.dirname(paths.dataDir);
      const trial = await mkdtemp(path.join(os.tmpdir(), "pawl-doctor-"));
      await (await openStore({ file: path.join(trial, "trial.db") })).close();
      await rm(trial, { recursive: true, force: true });
    }
    await access(parent, constants.W_OK);
    const { bavail, bsize } = await statfs(parent);
    const free = bavail * bsize;
    const detail = `${paths.dataDir}, ${(free / 1024 ** 3).toFixed(1)} GB free`;
    return {
      name: "data",
      ok: free >= leastFreeBytes,
      detail: free >= leastFreeBytes ? detail : `${detail}: make room, or set PAWL_HOME`,
    };
  } catch (error) {
    return { name: "data", ok: false, detail: messageOf(error) };
  }
}

async function checkModel(): Promise<Check> {
  try {
    const { model, baseUrl, contextTokens, maxOutputTokens } = resolveModelSettings(
      await loadConfig({ cwd: process.cwd(), env: process.env }),
    );
    return {
      name: "model",
      ok: true,
      detail: `${model} at ${baseUrl}, window of ${contextTokens} tokens, ${maxOutputTokens} of it for a reply (not asked)`,
    };
  } catch (error) {
    return { name: "model", ok: false, detail: messageOf(error) };
  }
}

async function checkQueue(): Promise<Check> {
  try {
    const { queue } = await loadConfig({ cwd: process.cwd(), env: process.env });
    if (queue === null) return { name: "queue", ok: true, detail: "embedded" };
    const { openRedis } = await import("../queue/redis.ts");
    const problems: string[] = [];
    const redis = await openRedis({
      url: queue,
      role: "producer",
      onError: (error) => problems.push(error.message),
    });
    let ok: boolean;
    try {
      await redis.whenReady(AbortSignal.timeout(checkTimeoutMs)).catch(() => {});
      ok = redis.client.status === "ready" && (await redis.client.ping()) === "PONG" && problems.length === 0;
    } finally {
      redis.markClosed();
      redis.disconnect();
    }
    return {
      name: "queue",
      ok,
      detail: ok ? `Redis at ${redis.place} answers` : (problems[0] ?? `no answer from ${redis.place}`),
    };
  } catch (error) {
    return { name: "queue", ok: false, detail: messageOf(error) };
  }
}
