import { messageOf } from "../errors.ts";
import { describe } from "./parameters.ts";

/** How often arguments that were encoded as a JSON string are decoded. */
const maxDecodings = 3;

/**
 * The object in a call's arguments, or what is wrong with them. Models and routers encode the whole of it twice and more;
 * that is undone. What is inside of the object is never touched: text that looks like JSON stays text.
 */
export function readArguments(text: string): { input: Record<string, unknown> } | { problem: string } {
  let value: unknown = text.trim() === "" ? {} : text;
  for (let decodings = 0; typeof value === "string" && decodings < maxDecodings; decodings += 1) {
    try {
      value = JSON.parse(value);
    } catch (error) {
      return {
        problem:
          `the arguments must be a JSON object, got ${describe(text)} (${text.length} characters), which does not parse: ` +
          `${messageOf(error)}. Send the call again with valid JSON`,
      };
    }
  }
  if (isObject(value)) return { input: value };
  return { problem: `the arguments must be a JSON object, got ${describe(value)}` };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
