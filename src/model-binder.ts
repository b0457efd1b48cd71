import { createProtocol } from "./agent/protocols/create.ts";
import { type ModelParameters, mergeParameters } from "./config/model-parameters.ts";
import {
  configuredUrl,
  type ModelSettings,
  resolveModelSettings,
  resolveRunSettings,
  resolveWindow,
} from "./config/model-settings.ts";
import type { Config } from "./config.ts";
import { ConfigError } from "./errors.ts";
import { accountOf, type Gate, type GateOptions, openGate } from "./limits/gate.ts";
import { openingHours } from "./limits/hours.ts";
import { findPrice, type Price } from "./limits/prices.ts";
import type { Model } from "./model/model.ts";
import { checkedModel } from "./model/own.ts";
import { defaultBaseUrl, type Profile, profileOf } from "./model/profiles.ts";
import { contextWindowOf } from "./model/windows.ts";
import type { TaskSpec } from "./producer/task.ts";
import type { ModelBinding } from "./worker/model-binding.ts";

/** The model that is asked in place of a service: the program's, else the configured module's. */
export async function findOwnModel(config: Config, own?: Model): Promise<Model | undefined> {
  if (own !== undefined || config.modelModule === null) return own;
  return (await import("./modules.ts")).loadModel(config.modelModule);
}

/**
 * Returns the function that binds runs to models: a run that has begun keeps its own, whatever is configured now. `own` is
 * a model of the program's or of the configured module: runs that began at a service stay there. `windowTokens` is the
 * window of the model where no setting says another. Throws ConfigError where the settings do not suffice.
 */
export function modelBinder(
  config: Config,
  own: Model | undefined,
  gateOptions: Pick<GateOptions, "store" | "redact">,
) {
  const clients = new Map<string, Model>();
  const gates = new Map<string, Gate>();

  /** One an account and process: it knows what is under way here. */
  function gateOf({ baseUrl, apiKey }: { baseUrl: string; apiKey: string | null }): Gate {
    const account = accountOf(baseUrl, apiKey);
    const gate = gates.get(account) ?? openGate({ ...gateOptions, account, limits: config });
    gates.set(account, gate);
    return gate;
  }

  const prices = new Map<string, Price | null>();
  /** Looked up once each: it is asked for at every request. */
  const pricesAt = (baseUrl: string | null) => (model: string) => {
    const key = `${baseUrl} ${model}`;
    const price = prices.get(key);
    if (price !== undefined) return price;
    const found = findPrice(model, { baseUrl, own: config.prices });
    prices.set(key, found);
    return found;
  };
  return async (spec: TaskSpec, windowTokens?: number): Promise<ModelBinding> => {
    const { fixed } = spec;
    const protocolName = fixed?.protocol ?? spec.protocol ?? config.protocol ?? "native";
    const parameters = fixed?.modelParameters ?? mergeParameters(config, spec.modelParameters);
    const limited = { ...withLimitOf(config, parameters), windowTokens };
    const begunAt = fixed?.baseUrl ?? null;
    if (own && begunAt === null) {
      const name = fixed?.model ?? spec.model ?? config.model ?? "own";
      const protocol = createProtocol(protocolName, profileOf(defaultBaseUrl));
      return {
        model: checkedModel(own),
        name,
        baseUrl: null,
        provider: null,
        protocol,
        parameters,
        priceOf: pricesAt(null),
        gate: null,
        ...limitsOf(config, spec, true),
        // Names of a service's models, which this is not.
        fallbackModels: [],
        ...ownModelWindow(limited),
      };
    }
    if (fixed && begunAt === null) throw new ConfigError(lostModel);
    const { model: name, ...settings } =
      fixed && begunAt !== null
        ? resolveRunSettings(limited, { ...fixed, baseUrl: begunAt })
        : resolveModelSettings(limited, spec.model);
    const { baseUrl, provider, apiKey, contextTokens, maxOutputTokens } = settings;
    const profile = profileOf(baseUrl, provider);
    requireImageSupport(profile, spec.images);
    const place = `${provider} ${baseUrl}`;
    const client = clients.get(place) ?? (await openClient(config, settings));
    clients.set(place, client);
    const isConfigured = baseUrl === configuredUrl(config);
    return {
      model: client,
      name,
      baseUrl,
      provider,
      protocol: createProtocol(protocolName, profile),
      parameters,
      gate: gateOf({ baseUrl, apiKey }),
      ...limitsOf(config, spec, isConfigured),
      contextTokens,
      maxOutputTokens,
      priceOf: pricesAt(baseUrl),
    };
  };
}

/** The service of these settings. It asks once a question. */
export async function openClient(
  { timeouts, stream }: Config,
  settings: Omit<ModelSettings, "model">,
): Promise<Model> {
  const { baseUrl, provider, apiKey, extraHeaders: headers } = settings;
  const { openaiModel } = await import("./model/openai.ts");
  const profile = profileOf(baseUrl, provider);
  return openaiModel({ baseUrl, apiKey, profile, headers, timeouts, stream });
}

/** Throws ConfigError where a service takes no images and a task has some: before anything is spent. */
export function requireImageSupport({ name, allowsImages }: Profile, images: unknown[] = []): void {
  if (images.length === 0 || allowsImages) return;
  throw new ConfigError(
    `expected a task without images, as ${name} takes none, got ${images.length}: leave them out, or set another model and base URL and retry the run`,
  );
}

const lostModel =
  "expected a model of your own, with which this run began, got none; set modelModule (or give openPawl the model) and resume the run, or retry it to begin anew with the present settings";

/** The settings with the limit of a reply that a task asks for; without one it hangs on the window. */
export function withLimitOf(config: Config, parameters: ModelParameters): Config {
  return { ...config, maxOutputTokens: parameters.maxOutputTokens ?? null };
}

/** Of the task, else as configured. The configured models in its place are those of the configured service. */
function limitsOf(config: Config, spec: TaskSpec, isConfigured: boolean) {
  const { fallbackModels = isConfigured ? config.fallbackModels : [] } = spec;
  const { allowedHours = config.allowedHours, latestStart = config.latestStart } = spec;
  return { fallbackModels, hours: openingHours({ allowedHours, latestStart }) };
}

/** The window of a program's own model, of which nothing is known. Throws ConfigError if it has no room for a prompt. */
export function ownModelWindow(config: Config): { contextTokens: number; maxOutputTokens: number } {
  return resolveWindow(config, contextWindowOf(""));
}
