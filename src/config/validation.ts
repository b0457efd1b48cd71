import { closest, distance } from "fastest-levenshtein";
import { z } from "zod";
import { parseHours, parseTime } from "../limits/hours.ts";

/** How a field is written as text, in a variable or a flag: a list is separated by commas. */
export type FieldType = "text" | "integer" | "dollars" | "list" | "json";

const fieldTypes: FieldType[] = ["text", "integer", "dollars", "list", "json"];

/** What is wrong with one field: `message` says what was expected and what was got, without the name. */
interface Problem {
  name: string;
  message: string;
}

/** Data that passed, or every problem it has. */
export type Checked<Data> = { data: Data } | { problems: Problem[] };

/** Longest delay a Node timer can hold; longer ones fire at once. */
export const maxMilliseconds = 2_147_483_647;

/**
 * Checks an object against a schema whose fields were made by `text`, `integer`, `list` and the like. Null counts as not
 * given. Every problem is reported, unknown names with the closest known one.
 */
export function checkFields<Schema extends z.ZodObject>(
  schema: Schema,
  value: object,
): Checked<z.output<Schema>> {
  const given = Object.fromEntries(Object.entries(value).filter(([, member]) => member != null));
  const known = Object.keys(schema.shape);
  const problems = Object.keys(given)
    .filter((name) => !known.includes(name))
    .map((name) => ({ name, message: `unknown${suggest(name, known)}` }));
  const result = schema.safeParse(given);
  if (result.success) return { data: result.data };
  for (const issue of result.error.issues) {
    const name = String(issue.path[0] ?? "");
    // One field can fail several checks, all with the same message.
    const isReported = problems.some((problem) => problem.name === name);
    if (known.includes(name) && !isReported) problems.push({ name, message: explain(issue, schema, given) });
  }
  return { problems };
}

/** Turns texts, as variables and flags give them, into the values their fields take; the rest is left for the check. */
export function parseTexts(schema: z.ZodObject, values: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => {
      const type = schema.shape[name] && metaOf(schema.shape[name]).type;
      if (typeof value !== "string") return [name, value];
      if (type === "integer" && /^[+-]?\d{1,15}$/.test(value.trim())) return [name, Number(value)];
      if (type === "dollars" && /^\d{1,9}(\.\d{1,6})?$/.test(value.trim())) return [name, Number(value)];
      if (type === "list") return [name, value.split(",").map((item) => item.trim())];
      if (type === "json") return [name, parseJson(value)];
      return [name, value];
    }),
  );
}

/** A text of at least one character that is not blank. The description reads after "expected" and as a flag's help. */
export function text(description: string, schema: z.ZodString = z.string()) {
  return schema.regex(/\S/).optional().meta({ type: "text", description });
}

/** A text whose value no message repeats. */
export function secret(description: string) {
  return z.string().regex(/^\S+$/).optional().meta({ type: "text", description, isSecret: true });
}

/** A whole number within bounds. */
export function integer(description: string, bounds: { minimum: number; maximum: number }) {
  const { minimum, maximum } = bounds;
  const range = `${description} from ${minimum} to ${maximum}`;
  return z.int().min(minimum).max(maximum).optional().meta({ type: "integer", description: range });
}

/** A number within bounds. */
export function number(description: string, bounds: { minimum: number; maximum: number }) {
  const { minimum, maximum } = bounds;
  const range = `${description} from ${minimum} to ${maximum}`;
  return z.number().min(minimum).max(maximum).optional().meta({ type: "text", description: range });
}

/** A sum of money, down to a ten-thousandth of a cent. */
export function dollars(description: string) {
  const [minimum, maximum] = [0.000001, 1_000_000];
  const range = `${description} from ${minimum} to ${maximum}`;
  return z.number().min(minimum).max(maximum).optional().meta({ type: "dollars", description: range });
}

/** A list of texts. */
export function list(description: string) {
  return z.array(z.string().regex(/\S/)).optional().meta({ type: "list", description });
}

/** Hours in which work is allowed. */
export function hoursOfDay() {
  return readable("hours such as 22:00-06:00, or 22:00-06:00 Europe/Berlin", parseHours);
}

/** The latest time at which something may begin. */
export function timeOfDay() {
  return readable("a time of the day such as 05:00", parseTime);
}

/** What a field is for and how it is written. */
export function metaOf(field: z.core.$ZodType): { type: FieldType; description: string; isSecret: boolean } {
  const meta = z.globalRegistry.get(field);
  const type = fieldTypes.find((each) => each === meta?.type) ?? "text";
  return { type, description: meta?.description ?? "", isSecret: meta?.isSecret === true };
}

/** ` (did you mean "x"?)` if a known name is close, else nothing. */
export function suggest(name: string, known: readonly string[]): string {
  const candidate = known.length > 0 ? closest(name.toLowerCase(), known) : undefined;
  if (candidate === undefined) return "";
  const isClose = distance(name.toLowerCase(), candidate.toLowerCase()) <= Math.max(2, name.length / 3);
  return isClose ? ` (did you mean "${candidate}"?)` : "";
}

/** A value as messages show it: short, whatever it is. */
export function describeValue(value: unknown): string {
  const maxChars = 60;
  if (value === undefined) return "nothing";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "function") return "a function";
  if (typeof value === "object" && value !== null) return "an object";
  const shown = typeof value === "string" ? JSON.stringify(value) : String(value);
  return shown.length > maxChars ? `${shown.slice(0, maxChars)}…` : shown;
}

/** `maxSteps` as `max-steps`. */
export function kebabCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** The text itself where it is no JSON: the check says what was expected. */
function parseJson(value: string): unknown {
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

function readable(description: string, read: (value: string) => unknown) {
  const schema = z.string().superRefine((value, context) => {
    if (read(value) !== undefined) return;
    context.addIssue({ code: "custom", message: `expected ${description}, got ${describeValue(value)}` });
  });
  return text(description, schema);
}

function explain(issue: z.core.$ZodIssue, schema: z.ZodObject, given: Record<string, unknown>): string {
  if (issue.code === "custom") return issue.message;
  const [name, ...rest] = issue.path.map(String);
  const field = schema.shape[name ?? ""];
  const { description, isSecret } = field ? metaOf(field) : { description: "another value", isSecret: false };
  if (isSecret) return `expected ${description}, got something else`;
  let got: unknown = given[name ?? ""];
  for (const member of rest) got = Object(got)[member];
  return `expected ${description}, got ${describeValue(got)}`;
}
