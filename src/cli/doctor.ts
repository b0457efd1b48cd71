import { execa } from "execa";
import { resolveDataPaths } from "../config/data-directory.ts";
import { resolveModelSettings } from "../config/model-settings.ts";
import { type Config, loadConfig } from "../config.ts";
import { quickCheck } from "../db/inspect.ts";
import { messageOf } from "../errors.ts";
import { ownModelWindow } from "../model-binder.ts";
import { loadModel, loadTools } from "../modules.ts";
import { type Check, checkData } from "./doctor-data.ts";
import { probeModel } from "./doctor-model.ts";
import { note, print, printJson } from "./output.ts";

const oldestNode = 20;
const checkTimeoutMs = 5000;

/** `pawl doctor`: what a night's run needs, each with what was found; exit 1 if something is missing. */
export async function doctor(options: {
  json?: boolean;
  model?: boolean;
  quickCheck?: boolean;
}): Promise<void> {
  if (options.quickCheck) {
    const { database } = resolveDataPaths({ cwd: process.cwd(), env: process.env });
    return print(await quickCheck(database));
  }
  if (options.model) note("asks the model once, which may take a minute");
  const checks = [
    await checkNode(),
    await checkProgram("git", ["--version"]),
    await checkProgram("bash", ["--version"]),
    ...(await checkData()),
    ...(options.model ? await probeModel() : [await checkModel()]),
    await checkTools(),
    await checkQueue(),
  ];
  const wrong = options.model ? "PROBLEM" : "MISSING";
  if (options.json) printJson({ ok: checks.every((check) => check.ok), checks });
  else
    for (const { name, ok, detail } of checks)
      print(`${ok ? "ok     " : wrong}  ${name.padEnd(8)} ${detail}`);
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
    const config = await loadConfig({ cwd: process.cwd(), env: process.env });
    if (config.modelModule !== null) return await checkModelModule(config, config.modelModule);
    const { model, baseUrl, contextTokens, maxOutputTokens } = resolveModelSettings(config);
    return {
      name: "model",
      ok: true,
      detail: `${model} at ${baseUrl}, window of ${contextTokens} tokens, ${maxOutputTokens} of it for a reply (not asked)`,
    };
  } catch (error) {
    return { name: "model", ok: false, detail: messageOf(error) };
  }
}

async function checkModelModule(config: Config, file: string): Promise<Check> {
  await loadModel(file);
  const { contextTokens, maxOutputTokens } = ownModelWindow(config);
  const window = `window of ${contextTokens} tokens, ${maxOutputTokens} of it for a reply`;
  return { name: "model", ok: true, detail: `${config.model ?? "own"} of ${file}, ${window} (not asked)` };
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
