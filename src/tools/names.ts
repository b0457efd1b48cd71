import { suggest } from "../config/validation.ts";

/** Why a name is that of no tool, with the closest one there is. */
export function describeUnknownTool(name: string, known: string[]): string {
  const there = known.join(", ");
  return `expected the name of a tool (${there}), got ${name}${suggest(name, known)}`;
}
