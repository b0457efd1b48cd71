import { ConfigError } from "../errors.ts";

/** Throws ConfigError for a base URL or key that no request could carry. Neither is in the message: both may hold secrets. */
export function requireEndpoint(baseUrl: string, apiKey: string | null): void {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password) {
    throw new ConfigError(
      "expected a base URL such as https://api.openai.com/v1, with http or https and without a password; check OPENAI_BASE_URL",
    );
  }
  if (apiKey && !/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new ConfigError(
      "expected an API key of printable ASCII characters without blanks; check OPENAI_API_KEY",
    );
  }
}
