import type { Config } from "../config.ts";
import { ConfigError } from "../errors.ts";
import { isLocalUrl, requireEndpoint } from "../model/endpoint.ts";
import {
  defaultBaseUrl,
  generalKeyVariable,
  keyVariablesOf,
  profileOf,
  providerNamed,
  providersOfKey,
  withApiPath,
} from "../model/profiles.ts";
import { contextWindowOf } from "../model/windows.ts";

/** Which model is asked, and where. */
export interface ModelSettings {
  model: string;
  /** Name of the profile of the service. */
  provider: string;
  baseUrl: string;
  /** Null for a local service that was given none. */
  apiKey: string | null;
  /** The model's window: prompt and reply together. */
  contextTokens: number;
  /** Upper bound of one reply. */
  maxOutputTokens: number;
  /** The configured ones: like the key, they go to the configured service alone. */
  extraHeaders?: Record<string, string> | undefined;
}

/** What is configured of all that. */
type Configured = Pick<
  Config,
  "model" | "provider" | "baseUrl" | "apiKey" | "keys" | "contextTokens" | "maxOutputTokens"
> &
  Partial<Pick<Config, "modelParameters">> & {
    /** What the model's server says of its window; without it the model's name tells. */
    windowTokens?: number | undefined;
  };

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
  const baseUrl = configuredUrl(config);
  if (name === null && (config.baseUrl !== null || baseUrl !== defaultBaseUrl)) {
    const given = config.baseUrl === null ? "provider" : "base URL";
    throw new ConfigError(
      `expected a model, as a ${given} is set, got none; set OPENAI_MODEL or pass --model`,
    );
  }
  requireEndpoint(baseUrl, config.apiKey?.trim() || null);
  return settingsAt(config, { model: name ?? defaultModel, baseUrl, provider: config.provider });
}

/**
 * The same for a run that has begun with a model and a base URL of its own, whatever is configured now. A key is sent to
 * its own service and no other. Throws ConfigError too where that one cannot do without.
 */
export function resolveRunSettings(
  config: Configured,
  begun: { model: string; baseUrl: string; provider?: string | undefined },
): ModelSettings {
  const { baseUrl, provider = null } = begun;
  const [origin, configured] = [originOf(baseUrl), originOf(configuredUrl(config))];
  if (keyOf(config, baseUrl) === null && origin !== configured && !isLocalUrl(baseUrl)) {
    throw new ConfigError(
      `expected the settings of ${origin}, where this run began, got those of ${configured}, whose key goes to no other service; set OPENAI_BASE_URL and OPENAI_API_KEY and resume the run, or retry it to begin anew with the present settings`,
    );
  }
  return settingsAt(config, { ...begun, provider });
}

function settingsAt(
  config: Configured,
  place: { model: string; baseUrl: string; provider: string | null },
): ModelSettings {
  const { model, baseUrl } = place;
  return {
    model,
    provider: profileOf(baseUrl, place.provider).name,
    baseUrl,
    apiKey: keyOf(config, baseUrl) ?? (isLocalUrl(baseUrl) ? null : missingKey(config, baseUrl)),
    ...resolveWindow(config, config.windowTokens ?? contextWindowOf(model)),
    // They may hold secrets: they are the configured service's.
    extraHeaders:
      originOf(baseUrl) === originOf(configuredUrl(config))
        ? config.modelParameters?.extraHeaders
        : undefined,
  };
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
    `expected a window with at least ${leastPromptTokens} tokens beside the reply, got ${contextTokens} (contextTokens) with ${maxOutputTokens} for the reply (maxOutputTokens); serve the model with a larger window, set contextTokens to its true one, or lower maxOutputTokens`,
  );
}

export function configuredUrl({ baseUrl, provider }: Configured): string {
  const known = providerNamed(provider);
  if (baseUrl !== null) return withApiPath(baseUrl, provider);
  if (known === undefined) return defaultBaseUrl;
  if (known.baseUrl !== null) return known.baseUrl;
  throw new ConfigError(`expected a base URL for the provider ${provider}, got none; set OPENAI_BASE_URL`);
}

/**
 * The key that may be sent to a base URL: what a variable of that service holds, else the configured key if it is the
 * key of that place. Null where there is none.
 */
function keyOf(config: Configured, baseUrl: string): string | null {
  const isConfigured = originOf(baseUrl) === originOf(configuredUrl(config));
  const named = providerNamed(config.provider);
  const anywhere = isConfigured && named?.hosts === null ? named.keyVariables : [];
  const own = [...anywhere, ...keyVariablesOf(baseUrl)].filter((name) => name !== generalKeyVariable);
  const variable = own.find((name) => config.keys[name] !== undefined);
  if (variable !== undefined) return config.keys[variable] ?? null;
  // The variable belongs to OPENAI_BASE_URL, without one to OpenAI: a provider that is only named is neither.
  const isGeneral = config.baseUrl === null && config.apiKey === config.keys[generalKeyVariable];
  const home = isGeneral ? defaultBaseUrl : configuredUrl(config);
  return originOf(baseUrl) === originOf(home) ? config.apiKey : null;
}

function originOf(baseUrl: string): string {
  return new URL(baseUrl).origin;
}

function missingKey(config: Configured, baseUrl: string): never {
  const wanted =
    config.baseUrl === null && providerNamed(config.provider)
      ? keyVariablesOf(baseUrl).filter((name) => baseUrl === defaultBaseUrl || name !== generalKeyVariable)
      : keyVariablesOf(baseUrl);
  const found = Object.keys(config.keys).filter((name) => !wanted.includes(name));
  const hints = found.map((name) => {
    const [provider] = providersOfKey(name);
    return provider === undefined ? name : `${name} (provider ${provider}: PAWL_PROVIDER=${provider})`;
  });
  const hint =
    found.length === 0 ? "" : `; found ${hints.join(", ")}: the key of another service is not sent`;
  throw new ConfigError(
    `expected a key in ${wanted.join(" or ")}, got none; set it in the environment or in .env${hint}`,
  );
}
