const maxEncodings = 3;

/**
 * The object in a call's arguments, or undefined. Models and routers encode the whole of it twice and more; that is
 * undone. What is inside of the object is never touched: text that looks like JSON stays text.
 */
export function readArguments(text: string): Record<string, unknown> | undefined {
  let value: unknown = text.trim() === "" ? "{}" : text;
  for (let depth = 0; depth < maxEncodings && typeof value === "string"; depth += 1) {
    value = parseJson(value);
  }
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : undefined;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
