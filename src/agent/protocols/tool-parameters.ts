import type { ToolSchema } from "../../model/model.ts";

// A tool's parameters as a text protocol tells of them, and what they let it read from less than JSON.

/** `{"path": string, "limit"?: integer (lines)}`: every parameter with its type and what it is for. */
export function describeParameters(schema: Record<string, unknown>): string {
  const required = requiredOf(schema);
  const members = Object.entries(propertiesOf(schema)).map(([name, property]) => {
    const mark = required.includes(name) ? "" : "?";
    const { description } = property;
    const note = typeof description === "string" && description !== "" ? ` (${description})` : "";
    return `${JSON.stringify(name)}${mark}: ${typeOf(property)}${note}`;
  });
  return `{${members.join(", ")}}`;
}

/** The parameter that bare text is for: the only one that is required, or the only one there is. Null if it is no text. */
export function soleTextParameter({ parameters }: ToolSchema): string | null {
  const properties = propertiesOf(parameters);
  const required = requiredOf(parameters);
  const [name, ...others] = required.length > 0 ? required : Object.keys(properties);
  if (name === undefined || others.length > 0) return null;
  return properties[name]?.type === "string" ? name : null;
}

/** Whether it can be called with nothing. */
export function isWithoutInput({ parameters }: ToolSchema): boolean {
  return requiredOf(parameters).length === 0;
}

type Properties = Record<string, Record<string, unknown>>;

function propertiesOf({ properties }: Record<string, unknown>): Properties {
  const entries = Object.entries(Object(properties) as Record<string, unknown>);
  return Object.fromEntries(entries.map(([name, property]) => [name, Object(property)]));
}

function requiredOf({ required }: Record<string, unknown>): string[] {
  return Array.isArray(required) ? required.filter((name) => typeof name === "string") : [];
}

/** What is not simple is given as the schema says it. */
function typeOf({ description, ...property }: Record<string, unknown>): string {
  if (Array.isArray(property.enum)) return property.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (property.type === "array") return `[${typeOf(Object(property.items))}, …]`;
  if (typeof property.type === "string" && property.type !== "object") return property.type;
  return JSON.stringify(property);
}
