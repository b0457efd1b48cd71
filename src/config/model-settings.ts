import { BlockList, isIP } from "node:net";
import type { Config } from "../config.ts";
import { ConfigError } from "../errors.ts";
import { defaultBaseUrl } from "../model/profiles.ts";
import { contextWindowOf } from "../model/windows.ts";

/** Which model is asked, and where. */
export interface ModelSettings {
  model: string;
  baseUrl: string;
  /** Null for a local service that was given none. */
  apiKey: string | null;
  /** The model's window: prompt and reply together. */
  contextTokens: number;
}

const defaultModel = "gpt-4o-mini";
/**
 * Model, base URL and key from the settings; `model` (a task's own) goes before the configured one. Throws ConfigError, in
 * one line, if a base URL has no model, or if a service that is not local has no key.
 */
export function resolveModelSettings(
  config: Pick<Config, "model" | "baseUrl" | "apiKey" | "contextTokens" | "keyVariables">,
  model: string | null = config.model,
): ModelSettings {
  const name = model ?? config.model;
  if (name === null && config.baseUrl !== null) {
    throw new ConfigError(
      "expected a model, as a base URL is set, got none; set OPENAI_MODEL or pass --model",
    );
  }
  const baseUrl = config.baseUrl ?? defaultBaseUrl;
  const resolvedModel = name ?? defaultModel;
  return {
    model: resolvedModel,
    baseUrl,
    apiKey: config.apiKey ?? (isLocalUrl(baseUrl) ? null : missingKey(config.keyVariables)),
    contextTokens: config.contextTokens ?? contextWindowOf(resolvedModel),
  };
}

function missingKey(keyVariables: string[]): never {
  const found = keyVariables.filter((name) => name !== "OPENAI_API_KEY");
  const hint =
    found.length === 0
      ? ""
      : `; found ${found.join(", ")}: to use another service, set OPENAI_API_KEY to its key, OPENAI_BASE_URL and OPENAI_MODEL`;
  throw new ConfigError(
    `expected a key in OPENAI_API_KEY, got none; set it in the environment or in .env${hint}`,
  );
}

/** Whether a URL names this machine or a private network. A name without dots never leaves it (a service of compose). */
function isLocalUrl(baseUrl: string): boolean {
  const host = new URL(baseUrl).hostname.replace(/^\[|\]$/g, "").toLowerCase();
  const family = isIP(host);
  if (family === 0) return !host.includes(".") || /\.(localhost|local|internal)$/.test(host);
  return privateNetworks().check(host, family === 6 ? "ipv6" : "ipv4");
}

function privateNetworks(): BlockList {
  const networks = new BlockList();
  networks.addAddress("0.0.0.0");
  networks.addSubnet("127.0.0.0", 8);
  networks.addSubnet("10.0.0.0", 8);
  networks.addSubnet("172.16.0.0", 12);
  networks.addSubnet("192.168.0.0", 16);
  networks.addSubnet("169.254.0.0", 16);
  networks.addAddress("::1", "ipv6");
  networks.addSubnet("fc00::", 7, "ipv6");
  networks.addSubnet("fe80::", 10, "ipv6");
  return networks;
}
