/** How a provider differs from the rest. Whatever the code must know about one stands here and nowhere else. */
export interface Profile {
  name: string;
  /** The request member that limits the reply. */
  tokensParameter: "max_tokens" | "max_completion_tokens";
  /** What stands for the text of a reply that holds calls only: some refuse null, some refuse a blank string. */
  emptyContent: null | "";
  /**
   * What of a reply is sent back: everything as it came (reasoning, signatures, unknown members), or only the members
   * that the public format names, for servers that answer 400 to any other.
   */
  sendsBack: "everything" | "standard";
  /** Whether a request may name texts at which the reply ends. */
  allowsStop: boolean;
}

export const defaultBaseUrl = "https://api.openai.com/v1";

/** The profile guessed from a base URL. A server that nobody knows is treated as the public format describes. */
export function profileOf(baseUrl: string): Profile {
  const host = URL.canParse(baseUrl) ? new URL(baseUrl).host : baseUrl;
  const known = providers.find(({ hosts }) => hosts.test(host));
  return { ...generic, ...known?.profile };
}

/** Whether this model takes stop words: reasoning models refuse the whole request for them, whoever serves them. */
export function allowsStop(profile: Profile, model: string): boolean {
  return profile.allowsStop && !/(^|\/)(o\d|gpt-5|grok-(3-mini|4))/i.test(model);
}

const generic: Profile = {
  name: "generic",
  tokensParameter: "max_tokens",
  emptyContent: null,
  sendsBack: "everything",
  allowsStop: true,
};

/** First match wins; `hosts` is held against host and port. */
const providers: { hosts: RegExp; profile: Partial<Profile> & { name: string } }[] = [
  {
    hosts: /(^|\.)openai\.com$|\.openai\.azure\.com$/,
    profile: { name: "openai", tokensParameter: "max_completion_tokens" },
  },
  { hosts: /(^|\.)anthropic\.com$/, profile: { name: "anthropic", sendsBack: "standard" } },
  { hosts: /(^|\.)openrouter\.ai$/, profile: { name: "openrouter" } },
  { hosts: /(^|\.)deepseek\.com$/, profile: { name: "deepseek", emptyContent: "" } },
  { hosts: /(^|\.)(volces|bytepluses)\.com$/, profile: { name: "ark", emptyContent: "" } },
  { hosts: /(^|\.)(bigmodel\.cn|z\.ai)$/, profile: { name: "glm", emptyContent: "" } },
  { hosts: /^dashscope[\w-]*\.aliyuncs\.com$/, profile: { name: "qwen", emptyContent: "" } },
  { hosts: /(^|\.)moonshot\.(ai|cn)$/, profile: { name: "kimi", emptyContent: "" } },
  { hosts: /^generativelanguage\.googleapis\.com$/, profile: { name: "gemini" } },
  {
    hosts: /(^|\.)mistral\.ai$/,
    profile: { name: "mistral", emptyContent: "", sendsBack: "standard" },
  },
  { hosts: /(^|\.)groq\.com$/, profile: { name: "groq", sendsBack: "standard" } },
  { hosts: /:11434$/, profile: { name: "ollama", emptyContent: "" } },
];
