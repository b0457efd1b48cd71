import { createProtocol } from "../agent/protocols/create.ts";
import { systemPrompt } from "../agent/protocols/prompt.ts";
import type { Protocol } from "../agent/protocols/protocol.ts";
import { mergeParameters, secretsOfHeaders } from "../config/model-parameters.ts";
import { resolveModelSettings } from "../config/model-settings.ts";
import { type Config, loadConfig } from "../config.ts";
import { ModelError, type ModelErrorKind, messageOf } from "../errors.ts";
import type { ChatMessage, Model, ModelReply, ToolSchema } from "../model/model.ts";
import { defaultBaseUrl, profileOf } from "../model/profiles.ts";
import { readServerFacts, type ServerFacts } from "../model/server-facts.ts";
import { findOwnModel, openClient, ownModelWindow } from "../model-binder.ts";
import { createRedact, secretsOf } from "../redact.ts";
import { clip, duration, flat } from "../report/text.ts";
import { readArguments } from "../tools/arguments.ts";
import type { Check } from "./doctor-data.ts";

/** A model that has to be loaded first takes its time; without a setting nobody waits for longer than this. */
const probeTimeoutMs = 60_000;
/** Enough for one that thinks before it calls. */
const maxReplyTokens = 2_000;
const maxShownColumns = 60;
const word = "ratchet";
/** The one that every protocol has. What it is called with is not run. */
const tool: ToolSchema = {
  name: "bash",
  description: "Runs a command.",
  parameters: { type: "object", properties: { command: { type: "string" } }, required: ["command"] },
};

type Verdict = Omit<Check, "name">;
type Verdicts = { key: Verdict; model: Verdict; "tool use": Verdict; window: Verdict };

/** Asks the configured model once, with a tool, and says what works. Only where that is refused it is asked without one. */
export async function probeModel(): Promise<Check[]> {
  const verdicts = await probe().catch((error) => notKnownBut({ model: bad(messageOf(error)) }));
  return Object.entries(verdicts).map(([name, verdict]) => ({ name, ...verdict }));
}

async function probe(): Promise<Verdicts> {
  const config = await loadConfig({ cwd: process.cwd(), env: process.env });
  const secrets = [config.apiKey, ...secretsOfHeaders(config.modelParameters.extraHeaders)];
  const redact = createRedact(secretsOf(process.env, secrets));
  const target = await openTarget(config);
  const tools = target.protocol.requestTools([tool]);
  const asked = await ask(target, tools);
  if ("reply" in asked) return judgeReply(target, asked);
  const { kind, message } = { ...asked, message: flat(redact(asked.message)) };
  if (kind !== "invalid" || tools.length === 0) return judgeFailure(target, kind, message);
  const second = await ask(target, []);
  if (!("reply" in second)) return judgeFailure(target, kind, message);
  if (asked.isWithoutTools && config.protocol === null) {
    const detail = `refused (${message}): runs are in ReAct, as no protocol is set`;
    return { ...judgeReply(target, second), "tool use": { ok: true, detail } };
  }
  const refused = bad(`refused (${message}), while a request without a tool is answered: ${advice}`);
  return { ...judgeReply(target, second), "tool use": refused };
}

/** Who is asked, and what is known of it. */
interface Target {
  config: Config;
  model: Model;
  name: string;
  place: string;
  protocol: Protocol;
  key: string;
  /** What the server says unasked; null of a module's model. */
  facts: ServerFacts | null;
  contextTokens: number;
  maxOutputTokens: number;
}

async function openTarget(config: Config): Promise<Target> {
  const own = await findOwnModel(config);
  if (own) {
    const name = config.model ?? "own";
    const protocol = createProtocol(config.protocol ?? "native", profileOf(defaultBaseUrl));
    const at = { place: `of ${config.modelModule}`, key: "none is needed", facts: null };
    return { config, model: own, name, protocol, ...at, ...ownModelWindow(config) };
  }
  const { facts, ...settings } = await askForSettings(config);
  const { model: name, baseUrl, apiKey, contextTokens, maxOutputTokens } = settings;
  const model = await openClient(config, settings);
  const key = apiKey === null ? "none is set, none was asked for" : "accepted";
  const protocol = createProtocol(config.protocol ?? "native", profileOf(baseUrl, settings.provider));
  const at = { place: `at ${baseUrl}`, key, facts };
  return { config, model, name, protocol, ...at, contextTokens, maxOutputTokens };
}

/** The settings with the window that a server of one's own names, as a run would have it. */
async function askForSettings(config: Config) {
  const guessed = resolveModelSettings(config);
  const signal = new AbortController().signal;
  const facts = await readServerFacts({ ...guessed, firstTokenTimeoutMs: probeTimeoutMs, signal });
  const windowTokens = facts.contextTokens ?? undefined;
  return { facts, ...resolveModelSettings({ ...config, windowTokens }) };
}

type Asked =
  | { reply: ModelReply; ms: number }
  | { kind: ModelErrorKind; message: string; isWithoutTools?: boolean };

async function ask(target: Target, tools: ToolSchema[]): Promise<Asked> {
  const { config, model, name, maxOutputTokens } = target;
  const timeoutMs = config.timeouts.requestTimeoutMs ?? probeTimeoutMs;
  const startedAt = performance.now();
  const request = {
    model: name,
    messages: await messagesFor(target),
    ...(tools.length > 0 && { tools }),
    ...(target.protocol.stop && { stop: target.protocol.stop }),
    maxOutputTokens: Math.min(maxReplyTokens, maxOutputTokens),
    parameters: mergeParameters(config),
  };
  try {
    const reply = await model.ask(request, AbortSignal.timeout(timeoutMs));
    return { reply, ms: performance.now() - startedAt };
  } catch (error) {
    if (error instanceof ModelError)
      return { kind: error.kind, message: error.message, isWithoutTools: error.unsupported === "tools" };
    const isLate = error instanceof Error && error.name === "TimeoutError";
    const message = isLate ? `no answer within ${duration(timeoutMs)} (requestTimeoutMs)` : messageOf(error);
    return { kind: "retry", message };
  }
}

/** Only a text protocol has to be explained. */
async function messagesFor({ protocol }: Target): Promise<ChatMessage[]> {
  const content = await systemPrompt({ protocol, template: "{{protocol}}", tools: [tool] });
  const task = protocol.renderNote(`Run this command with the tool ${tool.name}: echo ${word}`);
  return protocol.name === "native" ? [task] : [{ role: "system", content }, task];
}

function judgeReply(target: Target, { reply, ms }: { reply: ModelReply; ms: number }): Verdicts {
  const { key, name, place, contextTokens, maxOutputTokens } = target;
  const { promptTokens } = reply.usage;
  const counted = promptTokens === null ? "it counts no tokens, so pawl estimates" : "it counts tokens";
  return {
    key: { ok: true, detail: key },
    model: { ok: true, detail: `${name} ${place} answered in ${duration(ms)}` },
    "tool use": judgeCall(target, reply),
    window: {
      ok: true,
      detail: `${contextTokens} tokens (${sourceOfWindow(target)}), ${maxOutputTokens} of it for a reply; ${counted}`,
    },
  };
}

function sourceOfWindow({ config, facts }: Target): string {
  if (config.contextTokens !== null) return "set by contextTokens";
  if (facts === null || facts.contextTokens === null) return "guessed: contextTokens sets another";
  const { maxContextTokens, contextTokens, remedy } = facts;
  const isCut = maxContextTokens !== null && maxContextTokens > contextTokens;
  return isCut ? `as the server says, of ${maxContextTokens}: ${remedy}` : "as the server says";
}

const advice = "take a model with tool calling, or another protocol";

function judgeCall({ protocol, maxOutputTokens }: Target, reply: ModelReply): Verdict {
  const parsed = protocol.readReply(reply, { step: 1, tools: [tool] });
  if (parsed.kind === "calls") {
    const [call] = parsed.calls;
    const read = readArguments(call?.argumentsText ?? "");
    const isRight = call?.name === tool.name && "input" in read && isEcho(Object(read.input).command);
    const shown = clip(flat(`${call?.name} ${call?.argumentsText}`), maxShownColumns);
    return isRight
      ? { ok: true, detail: `called as asked (${protocol.name})` }
      : bad(`called, but not as asked: ${shown}`);
  }
  if (reply.finishReason === "length")
    return bad(`the reply was cut off before a call, at ${Math.min(maxReplyTokens, maxOutputTokens)} tokens`);
  const said = parsed.kind === "bad" ? "" : ` (${clip(flat(parsed.text), maxShownColumns)})`;
  return bad(`answered without calling the tool${said}: ${advice}`);
}

function isEcho(command: unknown): boolean {
  return typeof command === "string" && command.includes(word);
}

/** A failure says which of them does not work; of the others nothing is known then. */
function judgeFailure({ key }: Target, kind: ModelErrorKind, message: string): Verdicts {
  if (kind === "auth") return notKnownBut({ key: bad(message) });
  const accepted = { ok: true, detail: key };
  if (kind === "overflow") return notKnownBut({ key: accepted, window: bad(message) });
  // Who cannot be reached has seen no key.
  return notKnownBut({ ...(kind !== "retry" && { key: accepted }), model: bad(message) });
}

function notKnownBut(known: Partial<Verdicts>): Verdicts {
  const unknown = bad("not known");
  return { key: unknown, model: unknown, "tool use": unknown, window: unknown, ...known };
}

function bad(detail: string): Verdict {
  return { ok: false, detail };
}
