import { timeoutsFor } from "./deadline.ts";
import { isObject, parseJson } from "./json.ts";
import { createTransport } from "./transport.ts";

/** What a server of one's own says of a model before it is asked. Null where it does not say. */
export interface ServerFacts {
  /** The window that the model has there, prompt and reply together, in tokens. */
  contextTokens: number | null;
  /** What the model could have. */
  maxContextTokens: number | null;
  /** How its owner gives it a larger one. */
  remedy: string | null;
  takesTools: boolean | null;
}

interface Question {
  baseUrl: string;
  apiKey: string | null;
  /** Name of the profile; those without a way to ask say nothing. */
  provider: string;
  model: string;
  /** Of the time that loading the model may take, in milliseconds; the default is that of the first token. */
  firstTokenTimeoutMs?: number | undefined;
  signal: AbortSignal;
  /** Told when the model has to be loaded first, which may take minutes. */
  onLoad?: (() => void) | undefined;
}

/** Each look is bounded by these: a server that does not answer says nothing. */
const lookTimeoutMs = 2_000;
const maxLookBytes = 4 * 1024 * 1024;
/** The smallest window that Ollama gives where nobody asked for another. */
const leastOllamaTokens = 4_096;

const nothing: ServerFacts = {
  contextTokens: null,
  maxContextTokens: null,
  remedy: null,
  takesTools: null,
};

/**
 * Asks a server of a known kind for the window of a model, and whether it takes tools. Whatever goes wrong is no error:
 * the facts are left open. Rejects with the signal's reason at an abort.
 */
export async function readServerFacts(question: Question): Promise<ServerFacts> {
  const read = readers[question.provider];
  if (read === undefined) return nothing;
  const facts = { ...nothing, ...(await read(question)) };
  question.signal.throwIfAborted();
  return facts;
}

const readers: Record<string, (question: Question) => Promise<Partial<ServerFacts>>> = {
  ollama: readOllama,
  "llama.cpp": readLlamaCpp,
  lmstudio: readLmStudio,
  vllm: readVllm,
};

async function readOllama(question: Question): Promise<Partial<ServerFacts>> {
  const { model } = question;
  const shown = await look(question, "/api/show", { model });
  if (!isObject(shown)) return {};
  const { capabilities, model_info: info, parameters } = shown;
  const lengths = isObject(info) ? Object.entries(info) : [];
  const trained = tokens(lengths.find(([name]) => name.endsWith(".context_length"))?.[1]);
  const asked = tokens(Number(/^num_ctx\s+(\d+)/m.exec(String(parameters))?.[1]));
  return {
    contextTokens: await ollamaWindow(question, { asked, trained }),
    maxContextTokens: trained,
    remedy: "start Ollama with OLLAMA_CONTEXT_LENGTH, or set num_ctx in a Modelfile",
    takesTools: Array.isArray(capabilities) ? capabilities.includes("tools") : null,
  };
}

/**
 * The prompt is cut to it silently, so it must be known. It hangs on the server's settings and memory: only where the
 * model does not name one, it has to be loaded, which the first request would do too.
 */
async function ollamaWindow(
  question: Question,
  { asked, trained }: { asked: number | null; trained: number | null },
): Promise<number> {
  const loaded = await ollamaLoadedWindow(question);
  if (loaded !== null) return loaded;
  const most = trained ?? Number.POSITIVE_INFINITY;
  if (asked !== null) return Math.min(asked, most);
  question.onLoad?.();
  await load(question, "/api/generate", { model: question.model });
  return (await ollamaLoadedWindow(question)) ?? Math.min(leastOllamaTokens, most);
}

async function ollamaLoadedWindow(question: Question): Promise<number | null> {
  const running = await look(question, "/api/ps");
  const names = [question.model, `${question.model}:latest`];
  const found = itemsOf(running, "models").find(({ name, model }) =>
    names.some((each) => each === name || each === model),
  );
  return tokens(found?.context_length);
}

/** The window of one slot: what the server has is shared among them. */
async function readLlamaCpp(question: Question): Promise<Partial<ServerFacts>> {
  const props = await look(question, "/props");
  const settings = isObject(props) ? props.default_generation_settings : undefined;
  const contextTokens = isObject(settings) ? tokens(settings.n_ctx) : null;
  return { contextTokens, remedy: "start llama-server with a larger --ctx-size, or with fewer --parallel" };
}

async function readLmStudio(question: Question): Promise<Partial<ServerFacts>> {
  const found = entryOf(await look(question, "/api/v0/models"), question.model);
  return {
    contextTokens: tokens(found?.loaded_context_length),
    maxContextTokens: tokens(found?.max_context_length),
    remedy: "load the model with a larger context length",
  };
}

async function readVllm(question: Question): Promise<Partial<ServerFacts>> {
  const found = entryOf(await look(question, "/v1/models"), question.model);
  return { contextTokens: tokens(found?.max_model_len), remedy: "start vLLM with a larger --max-model-len" };
}

function entryOf(list: unknown, model: string) {
  return itemsOf(list, "data").find(({ id }) => id === model);
}

function itemsOf(list: unknown, member: string): Record<string, unknown>[] {
  const items = isObject(list) ? list[member] : undefined;
  return Array.isArray(items) ? items.filter(isObject) : [];
}

function tokens(value: unknown): number | null {
  return typeof value === "number" && Number.isInteger(value) && value > 0 ? value : null;
}

/** The JSON at a path of the server; undefined where there is none. A body is posted. */
async function look(question: Question, path: string, body?: unknown): Promise<unknown> {
  const signal = AbortSignal.any([question.signal, AbortSignal.timeout(lookTimeoutMs)]);
  try {
    const response = await fetch(urlOf(question, path), {
      method: body === undefined ? "GET" : "POST",
      headers: headersOf(question),
      redirect: "error",
      signal,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    if (!response.ok || response.body === null) {
      await response.body?.cancel();
      return undefined;
    }
    const decoder = new TextDecoder();
    let text = "";
    for await (const chunk of response.body) {
      text += decoder.decode(chunk, { stream: true });
      if (text.length > maxLookBytes) return undefined;
    }
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/** Has a model loaded, which takes as long as a first token may. */
async function load(question: Question, path: string, body: unknown): Promise<void> {
  const { baseUrl, firstTokenTimeoutMs } = question;
  const limitMs = firstTokenTimeoutMs ?? timeoutsFor(baseUrl).firstTokenTimeoutMs;
  const signal = AbortSignal.any([question.signal, AbortSignal.timeout(limitMs)]);
  try {
    const url = urlOf(question, path);
    const headers = new Headers(headersOf(question));
    const transport = createTransport();
    const response = await transport({
      ...{ url, headers, body: JSON.stringify({ ...Object(body), stream: false }), signal },
      onConnect() {},
    });
    response.resume();
    await new Promise((resolve, reject) => response.once("close", resolve).once("error", reject));
  } catch {
    // The first request says what is wrong.
  }
}

/** What is not OpenAI's stands beside its `/v1`. */
function urlOf({ baseUrl }: Question, path: string): string {
  const url = new URL(baseUrl);
  url.pathname = `${url.pathname.replace(/\/v1\/?$/, "").replace(/\/$/, "")}${path}`;
  return url.href;
}

function headersOf({ apiKey }: Question): Record<string, string> {
  return { "content-type": "application/json", ...(apiKey && { authorization: `Bearer ${apiKey}` }) };
}
