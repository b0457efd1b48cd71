import { execa } from "execa";
import { resolveDataPaths } from "../config/data-directory.ts";
import { resolveModelSettings } from "../config/model-settings.ts";
import { loadConfig } from "../config.ts";
import { quickCheck } from "../db/inspect.ts";
import { ConfigError, messageOf } from "../errors.ts";
import { loadTools } from "../modules.ts";
import { type Check, checkData } from "./doctor-data.ts";
import { print, printJson } from "./output.ts";

const oldestNode = 20;
const checkTimeoutMs = 5000;

/** `pawl doctor`: what a night's run needs, each with what was found; exit 1 if something is missing. */
export async function doctor(options: {
  json?: boolean;
  model?: boolean;
  quickCheck?: boolean;
}): Promise<void> {
  if (options.model)
    throw new ConfigError(
      "--model is not built yet: pawl doctor checks the settings without asking the model",
    );
  if (options.quickCheck) {
    const { database } = resolveDataPaths({ cwd: process.cwd(), env: process.env });
    return print(await quickCheck(database));
  }
  const checks = [
    await checkNode(),
    await checkProgram("git", ["--version"]),
    await checkProgram("bash", ["--version"]),
    ...(await checkData()),
    await checkModel(),
    await checkTools(),
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

async function checkTools(): Promise<Check> {
  try {
    const { tools } = await loadConfig({ cwd: process.cwd(), env: process.env });
    const names = tools.length === 0 ? [] : (await loadTools(tools)).map(({ name }) => name);
    return { name: "tools", ok: true, detail: ["the built-in ones", ...names].join(", ") };
  } catch (error) {
    return { name: "tools", ok: false, detail: messageOf(error) };
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
