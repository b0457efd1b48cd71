import { BlockList, isIP } from "node:net";
import type { Config } from "../config.ts";
import { ConfigError } from "../errors.ts";
import { requireEndpoint } from "../model/endpoint.ts";
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
  /** Upper bound of one reply. */
  maxOutputTokens: number;
}

/** What is configured of all that. */
type Configured = Pick<
  Config,
  "model" | "baseUrl" | "apiKey" | "contextTokens" | "maxOutputTokens" | "keyVariables"
>;

const defaultModel = "gpt-4o-mini";
const defaultMaxOutputTokens = 8_000;
/** Where nobody says how long a reply may be, it takes at most this part of a small window. */
const defaultOutputShare = 1 / 4;
/** The prompt and the built-in tools take about 1,500 tokens: with less than this no work is possible. */
const leastPromptTokens = 2_000;

/**
 * Model, base URL and key from the settings; `model` (a task's own) goes before the configured one. Throws ConfigError, in
 * one line, if a base URL cannot be used or has no model, if a service that is not local has no key, or if the window has no room for a prompt.
 */
export function resolveModelSettings(config: Configured, model: string | null = config.model): ModelSettings {
  const name = model ?? config.model;
  if (name === null && config.baseUrl !== null) {
    throw new ConfigError(
      "expected a model, as a base URL is set, got none; set OPENAI_MODEL or pass --model",
    );
  }
  const baseUrl = config.baseUrl ?? defaultBaseUrl;
  requireEndpoint(baseUrl, config.apiKey?.trim() || null);
  const resolvedModel = name ?? defaultModel;
  return {
    model: resolvedModel,
    baseUrl,
    apiKey: config.apiKey ?? (isLocalUrl(baseUrl) ? null : missingKey(config.keyVariables)),
    ...resolveWindow(config, contextWindowOf(resolvedModel)),
  };
}

/**
 * The same for a run that has begun with a model and a base URL of its own, whatever is configured now. The key is the
 * configured service's: it is sent to no other. Throws ConfigError too where that one cannot do without.
 */
export function resolveRunSettings(
  config: Configured,
  begun: { model: string; baseUrl: string },
): ModelSettings {
  const { model, baseUrl } = begun;
  const [origin, configured] = [baseUrl, config.baseUrl ?? defaultBaseUrl].map((url) => new URL(url).origin);
  if (origin === configured) return resolveModelSettings({ ...config, baseUrl }, model);
  if (isLocalUrl(baseUrl)) return resolveModelSettings({ ...config, baseUrl, apiKey: null }, model);
  throw new ConfigError(
    `expected the settings of ${origin}, where this run began, got those of ${configured}, whose key goes to no other service; set OPENAI_BASE_URL and OPENAI_API_KEY and resume the run, or retry it to begin anew with the present settings`,
  );
}

/**
 * The window, and what of it a reply may take; `knownTokens` is the window where none is configured. Throws ConfigError if
 * that leaves no room for a prompt.
 */
export function resolveWindow(
  config: Pick<Config, "contextTokens" | "maxOutputTokens">,
  knownTokens: number,
): { contextTokens: number; maxOutputTokens: number } {
  const contextTokens = config.contextTokens ?? knownTokens;
  const maxOutputTokens =
    config.maxOutputTokens ??
    Math.min(defaultMaxOutputTokens, Math.floor(contextTokens * defaultOutputShare));
  if (contextTokens - maxOutputTokens >= leastPromptTokens) return { contextTokens, maxOutputTokens };
  throw new ConfigError(
    `expected a window with at least ${leastPromptTokens} tokens beside the reply, got ${contextTokens} (contextTokens) with ${maxOutputTokens} for the reply (maxOutputTokens); set contextTokens to the model's true window, or lower maxOutputTokens`,
  );
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
