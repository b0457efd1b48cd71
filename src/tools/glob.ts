import { RecoverableError } from "../errors.ts";

/**
 * A test for relative paths: `*` and `?` within a name, `**` across folders, `{a,b}`, `[a-z]`. A pattern without a slash
 * matches the name alone, in any folder.
 */
export function globMatcher(pattern: string): (relativePath: string) => boolean {
  const trimmed = pattern.replace(/^\.?\//, "");
  const source = trimmed.includes("/") ? trimmed : `**/${trimmed}`;
  const expression = compile(source, pattern);
  return (relativePath) => expression.test(relativePath);
}

function compile(source: string, pattern: string): RegExp {
  try {
    return new RegExp(`^${translate(source)}$`, "su");
  } catch {
    throw new RecoverableError(
      `glob: expected a pattern such as "src/**/*.ts", got ${JSON.stringify(pattern)}`,
    );
  }
}

function translate(pattern: string): string {
  const tokens = pattern.match(/\*\*\/|\*\*|\[!?[^\]/]+\]|\{[^{}]*\}|[\s\S]/gu) ?? [];
  return tokens.map(translateToken).join("");
}

function translateToken(token: string): string {
  if (token === "**/") return "(?:[^/]+/)*";
  if (token === "**") return ".*";
  if (token === "*") return "[^/]*";
  if (token === "?") return "[^/]";
  if (token.length > 1 && token.startsWith("{")) {
    return `(?:${token.slice(1, -1).split(",").map(translate).join("|")})`;
  }
  if (token.length > 1 && token.startsWith("[")) {
    const characters = token
      .slice(1, -1)
      .replace(/[\\[\]^&~|]/g, (character) => (character === "^" ? "\\^" : `\\${character}`));
    return characters.startsWith("!") ? `[^/${characters.slice(1)}]` : `[${characters}]`;
  }
  return token.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&").replace("\\-", "-");
}
