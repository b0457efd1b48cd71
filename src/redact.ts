import type { Logger } from "./log.ts";

/** Shorter values are no secrets, and replacing them would spoil texts. */
const shortestSecret = 8;
const secretNames = /(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$/i;

/** Stands for the value of a secret. */
export const redactedMark = "[redacted]";

/** Replaces the values of secrets in a text that is about to be recorded. */
export type Redact = (text: string) => string;

/** The secrets of this process: what variables with such names hold, and `more`. */
export function secretsOf(
  env: Readonly<Record<string, string | undefined>>,
  more: (string | null)[] = [],
): string[] {
  const values = Object.entries(env).flatMap(([name, value]) =>
    secretNames.test(name) ? [value ?? ""] : [],
  );
  const known = [...values, ...more.map((value) => value ?? "")].map((value) => value.trim());
  return [...new Set(known)].filter((value) => value.length >= shortestSecret);
}

export function createRedact(secrets: string[]): Redact {
  // Longest first: one secret may hold another. In JSON text a value may be escaped.
  const forms = secrets.flatMap((secret) => [secret, JSON.stringify(secret).slice(1, -1)]);
  const values = [...new Set(forms)].sort((a, b) => b.length - a.length);
  return (text) => values.reduce((left, value) => left.replaceAll(value, redactedMark), text);
}

/** A logger whose facts hold no secrets. */
export function redactingLogger(logger: Logger, redact: Redact): Logger {
  const clean = (facts: Record<string, unknown> | undefined) =>
    facts &&
    Object.fromEntries(Object.entries(facts).map(([name, value]) => [name, redactFact(value, redact)]));
  return {
    info: (event, facts) => logger.info(event, clean(facts)),
    debug: (event, facts) => logger.debug(event, clean(facts)),
    ...(logger.live && { live: (event, facts) => logger.live?.(event, clean(facts) ?? {}) }),
  };
}

/** A text without the user names and passwords that URLs in it carry. */
export function withoutCredentials(text: string): string {
  return text.replace(/\b(https?:\/\/)[^/\s@]*@|\b([a-z][a-z0-9+.-]*:\/\/)[^/\s@:]*:[^/\s@]*@/gi, "$1$2");
}

function redactFact(value: unknown, redact: Redact): unknown {
  if (typeof value === "string") return redact(value);
  return Array.isArray(value) ? value.map((each) => redactFact(each, redact)) : value;
}
