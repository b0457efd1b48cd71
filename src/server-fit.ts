import { resolveModelSettings } from "./config/model-settings.ts";
import type { Config } from "./config.ts";
import type { Logger } from "./log.ts";
import { readServerFacts, type ServerFacts } from "./model/server-facts.ts";
import type { TaskSpec } from "./producer/task.ts";
import type { FittedBinding, ModelBinding } from "./worker/model-binding.ts";

/** Binds a run to its model; `windowTokens` is its window where no setting says another. */
type Bind = (spec: TaskSpec, windowTokens?: number) => Promise<ModelBinding>;

/**
 * Binds runs so that they suit the server they begin at: the window is the one that the model has there, and a model that
 * takes no tools is spoken to in ReAct where nobody chose a protocol. A run that has begun keeps what it began with.
 * What was learned of tools is kept for the runs that this process begins later.
 */
export function fitToServer(bind: Bind, { config, logger }: { config: Config; logger: Logger }) {
  const refusals = new Map<string, string>();
  const said = new Set<string>();

  function say(event: string, facts: Record<string, unknown>): void {
    const line = JSON.stringify([event, facts]);
    if (!said.has(line)) logger.info(event, facts);
    said.add(line);
  }

  async function ask(spec: TaskSpec, { signal, ...place }: { signal: AbortSignal } & Place) {
    const { apiKey } = resolveModelSettings({ ...config, maxOutputTokens: null }, spec.model);
    const { model, provider, baseUrl } = place;
    if (config.baseUrl !== null && config.baseUrl !== baseUrl) say("model.base_url", { baseUrl });
    const { firstTokenTimeoutMs } = config.timeouts;
    const onLoad = () => logger.info("model.loading", { model, provider });
    const facts = await readServerFacts({ ...place, apiKey, firstTokenTimeoutMs, signal, onLoad });
    const { contextTokens, maxContextTokens, remedy } = facts;
    if (contextTokens !== null && config.contextTokens === null)
      say("model.window", { model, provider, contextTokens, maxContextTokens, remedy });
    return facts;
  }

  return async (spec: TaskSpec, signal: AbortSignal): Promise<FittedBinding> => {
    const { fixed } = spec;
    const isOpen = spec.protocol === undefined && config.protocol === null;
    const bound = await bind(spec, fixed?.contextTokens);
    const { name: model, provider, baseUrl } = bound;
    const place = JSON.stringify([provider, baseUrl, model]);
    const onToolsRefused = isOpen ? (why: string) => refusals.set(place, why) : null;
    if (fixed) {
      const { contextTokens = null } = fixed;
      return { ...bound, fit: { contextTokens, protocolChange: null, onToolsRefused } };
    }
    const isService = provider !== null && baseUrl !== null;
    const facts = isService ? await ask(spec, { model, provider, baseUrl, signal }) : null;
    const protocolChange = isOpen ? (refusals.get(place) ?? refusalIn(facts, model)) : null;
    if (protocolChange !== null && !refusals.has(place))
      say("protocol.changed", { from: "native", to: "react", why: protocolChange });
    const contextTokens = facts?.contextTokens ?? null;
    const fitted = protocolChange === null ? spec : { ...spec, protocol: "react" as const };
    const rebound = await bind(fitted, contextTokens ?? undefined);
    return { ...rebound, fit: { contextTokens, protocolChange, onToolsRefused } };
  };
}

interface Place {
  model: string;
  provider: string;
  baseUrl: string;
}

function refusalIn(facts: ServerFacts | null, model: string): string | null {
  return facts?.takesTools === false ? `${model} does not support tools` : null;
}
