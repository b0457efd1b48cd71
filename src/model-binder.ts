import { createProtocol } from "./agent/protocols/create.ts";
import { resolveModelSettings, resolveRunSettings, resolveWindow } from "./config/model-settings.ts";
import type { Config } from "./config.ts";
import type { Model } from "./model/model.ts";
import { defaultBaseUrl, profileOf } from "./model/profiles.ts";
import { contextWindowOf } from "./model/windows.ts";
import type { TaskSpec } from "./producer/task.ts";
import type { ModelBinding } from "./worker/execute-run.ts";

/**
 * Returns the function that binds runs to models: a run that has begun keeps its own, whatever is configured now. `own` is
 * a model of the program's. Throws ConfigError where the settings do not suffice.
 */
export function modelBinder(config: Config, own: Model | undefined) {
  const clients = new Map<string, Model>();
  return async (spec: TaskSpec): Promise<ModelBinding> => {
    const { fixed } = spec;
    const protocolName = fixed?.protocol ?? spec.protocol ?? config.protocol;
    if (own) {
      const name = fixed?.model ?? spec.model ?? config.model ?? "own";
      const protocol = createProtocol(protocolName, profileOf(defaultBaseUrl));
      return { model: own, name, baseUrl: null, provider: null, protocol, ...ownModelWindow(config) };
    }
    const { model: name, ...settings } =
      fixed?.baseUrl != null
        ? resolveRunSettings(config, { ...fixed, baseUrl: fixed.baseUrl })
        : resolveModelSettings(config, fixed?.model ?? spec.model);
    const { baseUrl, apiKey, provider, contextTokens, maxOutputTokens } = settings;
    const profile = profileOf(baseUrl, provider);
    const { openaiModel } = await import("./model/openai.ts");
    const { timeouts, stream } = config;
    const client =
      clients.get(`${provider} ${baseUrl}`) ?? openaiModel({ baseUrl, apiKey, profile, timeouts, stream });
    clients.set(`${provider} ${baseUrl}`, client);
    return {
      model: client,
      name,
      baseUrl,
      provider,
      protocol: createProtocol(protocolName, profile),
      contextTokens,
      maxOutputTokens,
    };
  };
}

/** The window of a program's own model, of which nothing is known. Throws ConfigError if it has no room for a prompt. */
export function ownModelWindow(config: Config): { contextTokens: number; maxOutputTokens: number } {
  return resolveWindow(config, contextWindowOf(""));
}
