import { isLocalUrl, isProtectedUrl } from "./endpoint.ts";

/** How a provider differs from the rest. Whatever the code must know about one stands here and nowhere else. */
export interface Profile {
  /** As `--provider` writes it. */
  name: string;
  /** The request member that limits the reply. */
  tokensParameter: "max_tokens" | "max_completion_tokens";
  seedParameter: "seed" | "random_seed";
  /** What stands for the text of a reply that holds calls only: some refuse null, some refuse a blank string. */
  emptyContent: null | "";
  /**
   * What of a reply is sent back: everything as it came (reasoning, signatures, unknown members), or only the members
   * that the public format names, for servers that answer 400 to any other.
   */
  sendsBack: "everything" | "standard";
  /** Whether usage in a stream is asked for (`stream_options`). Others send it unasked, or refuse the member. */
  asksStreamUsage: boolean;
  /** Whether a user message may follow a tool result or another one. Many chat templates refuse that. */
  allowsAnyOrder: boolean;
  /** Whether a request may name texts at which the reply ends. */
  allowsStop: boolean;
  /** Whether a message of the user may hold images. */
  allowsImages: boolean;
}

/** A profile, and where it applies. */
interface Provider extends Profile {
  /** Null where it must be said. */
  baseUrl: string | null;
  /** Variables that may hold its key, the first one set counts. */
  keyVariables: string[];
  /** Held against host and port of a base URL; null where people run it themselves, anywhere. */
  hosts: RegExp | null;
}

/** This machine, as base URLs name it. */
const thisMachine = /^(localhost|127\.0\.0\.1|\[::1\])$/;

export const defaultBaseUrl = "https://api.openai.com/v1";

/** The profile that was named, else the one guessed from the base URL, else what the public format describes. */
export function profileOf(baseUrl: string, name?: string | null): Profile {
  return providerNamed(name) ?? providerAt(baseUrl) ?? generic;
}

export function providerNamed(name: string | null | undefined): Provider | undefined {
  return providers.find((provider) => provider.name === name);
}

/** Whose service stands at a base URL, as far as its host tells; on this machine, its usual port. */
export function providerAt(baseUrl: string): Provider | undefined {
  if (!URL.canParse(baseUrl)) return providers.find(({ hosts }) => hosts?.test(baseUrl));
  const { host, hostname, port } = new URL(baseUrl);
  const usual = thisMachine.test(hostname) ? port : "";
  return providers.find(
    ({ hosts, baseUrl: own }) =>
      hosts?.test(host) || (usual !== "" && own !== null && isLocalUrl(own) && new URL(own).port === usual),
  );
}

/** The base URL with `/v1`, which people leave out for servers of their own. */
export function withApiPath(baseUrl: string, name?: string | null): string {
  if (!URL.canParse(baseUrl)) return baseUrl;
  const usual = (providerNamed(name) ?? providerAt(baseUrl))?.baseUrl;
  const url = new URL(baseUrl);
  if (!usual || !isLocalUrl(usual) || url.pathname !== "/") return baseUrl;
  url.pathname = new URL(usual).pathname;
  return url.href;
}

/** Whether this model takes stop words: reasoning models refuse the whole request for them, whoever serves them. */
export function allowsStop(profile: Profile, model: string): boolean {
  return profile.allowsStop && !/(^|\/)(o\d|gpt-5|grok-(3-mini|4))/i.test(model);
}

/** The variables whose key may go to a base URL: a provider's own go to its hosts alone, and not in clear text. */
export function keyVariablesOf(baseUrl: string): string[] {
  const own = isProtectedUrl(baseUrl) ? (providerAt(baseUrl)?.keyVariables ?? []) : [];
  return [...own.filter((name) => name !== generalKeyVariable), generalKeyVariable];
}

/** Whose key a variable holds. */
export function providersOfKey(variable: string): string[] {
  return providers.filter(({ keyVariables }) => keyVariables.includes(variable)).map(({ name }) => name);
}

/** Holds the key of the configured base URL, whosever that is; without one, OpenAI's. */
export const generalKeyVariable = "OPENAI_API_KEY";

const generic: Provider = {
  name: "generic",
  baseUrl: null,
  keyVariables: [generalKeyVariable],
  hosts: null,
  tokensParameter: "max_tokens",
  seedParameter: "seed",
  emptyContent: null,
  sendsBack: "everything",
  asksStreamUsage: true,
  allowsAnyOrder: false,
  allowsStop: true,
  allowsImages: true,
};

/** First match wins. */
const providers: Provider[] = [
  {
    ...generic,
    name: "openai",
    baseUrl: defaultBaseUrl,
    hosts: /(^|\.)openai\.com$|\.openai\.azure\.com$/,
    tokensParameter: "max_completion_tokens",
    allowsAnyOrder: true,
  },
  {
    ...generic,
    name: "anthropic",
    baseUrl: "https://api.anthropic.com/v1",
    keyVariables: ["ANTHROPIC_API_KEY"],
    hosts: /(^|\.)anthropic\.com$/,
    sendsBack: "standard",
    allowsAnyOrder: true,
  },
  {
    ...generic,
    name: "openrouter",
    baseUrl: "https://openrouter.ai/api/v1",
    keyVariables: ["OPENROUTER_API_KEY"],
    hosts: /(^|\.)openrouter\.ai$/,
  },
  {
    ...generic,
    name: "deepseek",
    baseUrl: "https://api.deepseek.com/v1",
    keyVariables: ["DEEPSEEK_API_KEY"],
    hosts: /(^|\.)deepseek\.com$/,
    emptyContent: "",
    allowsAnyOrder: true,
    allowsImages: false,
  },
  {
    ...generic,
    name: "ark",
    baseUrl: "https://ark.cn-beijing.volces.com/api/v3",
    keyVariables: ["ARK_API_KEY", "VOLCENGINE_API_KEY"],
    hosts: /(^|\.)(volces|bytepluses)\.com$/,
    emptyContent: "",
    allowsAnyOrder: true,
  },
  {
    ...generic,
    name: "glm",
    baseUrl: "https://open.bigmodel.cn/api/paas/v4",
    keyVariables: ["ZHIPUAI_API_KEY", "ZHIPU_API_KEY"],
    hosts: /(^|\.)bigmodel\.cn$/,
    emptyContent: "",
    allowsAnyOrder: true,
  },
  {
    ...generic,
    name: "zai",
    baseUrl: "https://api.z.ai/api/paas/v4",
    keyVariables: ["ZAI_API_KEY"],
    hosts: /(^|\.)z\.ai$/,
    emptyContent: "",
    allowsAnyOrder: true,
  },
  {
    ...generic,
    name: "qwen",
    baseUrl: "https://dashscope.aliyuncs.com/compatible-mode/v1",
    keyVariables: ["DASHSCOPE_API_KEY"],
    hosts: /^dashscope[\w-]*\.aliyuncs\.com$/,
    emptyContent: "",
    allowsAnyOrder: true,
  },
  {
    ...generic,
    name: "kimi",
    baseUrl: "https://api.moonshot.ai/v1",
    keyVariables: ["MOONSHOT_API_KEY"],
    hosts: /(^|\.)moonshot\.(ai|cn)$/,
    emptyContent: "",
    allowsAnyOrder: true,
  },
  {
    ...generic,
    name: "gemini",
    baseUrl: "https://generativelanguage.googleapis.com/v1beta/openai",
    keyVariables: ["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    hosts: /^generativelanguage\.googleapis\.com$/,
    allowsAnyOrder: true,
  },
  {
    ...generic,
    name: "mistral",
    baseUrl: "https://api.mistral.ai/v1",
    keyVariables: ["MISTRAL_API_KEY"],
    hosts: /(^|\.)mistral\.ai$/,
    seedParameter: "random_seed",
    emptyContent: "",
    sendsBack: "standard",
    asksStreamUsage: false,
  },
  {
    ...generic,
    name: "groq",
    baseUrl: "https://api.groq.com/openai/v1",
    keyVariables: ["GROQ_API_KEY"],
    hosts: /(^|\.)groq\.com$/,
    sendsBack: "standard",
    asksStreamUsage: false,
    allowsAnyOrder: true,
  },
  {
    ...generic,
    name: "ollama",
    baseUrl: "http://localhost:11434/v1",
    hosts: /:11434$/,
    emptyContent: "",
  },
  { ...generic, name: "vllm", baseUrl: "http://localhost:8000/v1", keyVariables: ["VLLM_API_KEY"] },
  { ...generic, name: "llama.cpp", baseUrl: "http://localhost:8080/v1", keyVariables: ["LLAMA_API_KEY"] },
  { ...generic, name: "lmstudio", baseUrl: "http://localhost:1234/v1" },
  { ...generic, name: "litellm", baseUrl: "http://localhost:4000/v1", keyVariables: ["LITELLM_API_KEY"] },
  generic,
];

/** What `--provider` takes. */
export const providerNames = providers.map(({ name }) => name);
