import { z } from "zod";
import { type Checked, checkFields, describeValue, integer, number, text } from "./validation.ts";

/** How a model answers, as a task and the configuration write it. */
export const modelParametersSchema = z.strictObject({
  temperature: number("a number", { minimum: 0, maximum: 2 }),
  seed: integer("a whole number", { minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
  maxOutputTokens: integer("a whole number of tokens", { minimum: 1, maximum: 100_000_000 }),
  reasoningEffort: text('a text such as "low", "medium" or "high"'),
  extraBody: z
    .record(z.string(), z.json())
    .optional()
    .meta({ type: "json", description: "an object of more members of the request's body, in JSON" }),
  extraHeaders: z
    .record(z.string(), z.string())
    .optional()
    .meta({ type: "json", description: "an object of names of headers and their texts" }),
});
export type ModelParameters = z.output<typeof modelParametersSchema>;

/**
 * Members of a body that are ours alone, and what sets them. A limit in the extra body would be none that the window and the
 * budgets know of.
 */
const ownMembers: Record<string, string> = {
  model: "set the model",
  messages: "the log of the run makes it",
  tools: "set tools",
  stream: "leave it out",
  stream_options: "leave it out",
  n: "one reply is asked for",
  max_tokens: "set maxOutputTokens",
  max_completion_tokens: "set maxOutputTokens",
};

/** Headers that are the connection's. */
const ownHeaders = /^(host|connection|content-length|content-type|content-encoding|transfer-encoding)$/i;
/** Headers of which the values are no secrets, whoever sets them. */
const publicHeaders =
  /^(accept.*|user-agent|(http-)?referer|x-title|openai-(organization|project|beta)|anthropic-(version|beta))$/i;
const credentialHeaders = /auth|cookie|key|token|secret|passw|credential/i;

/**
 * The field of a task or of the configuration. What a task says is stored with its run, so headers that by their names
 * carry credentials are refused there (`isStored`).
 */
export function modelParametersField({ isStored }: { isStored: boolean }) {
  return z
    .custom<ModelParameters>()
    .transform((value, context) => {
      const checked = checkModelParameters(value, isStored);
      if ("data" in checked) return checked.data;
      const problems = checked.problems.map(({ name, message }) => (name ? `${name}: ${message}` : message));
      context.addIssue({ code: "custom", message: problems.join("; ") });
      return z.NEVER;
    })
    .optional()
    .meta({
      type: "json",
      description: `an object of ${Object.keys(modelParametersSchema.shape).join(", ")}`,
    });
}

/**
 * A task's parameters over the configured ones, those of the extra body one by one. They are stored with the run: the
 * configured headers, which may hold secrets, are not among them.
 */
export function mergeParameters(
  config: { modelParameters?: ModelParameters; maxOutputTokens: number | null },
  own: ModelParameters = {},
): ModelParameters {
  const { extraHeaders: _configured, ...shared } = config.modelParameters ?? {};
  const maxOutputTokens = own.maxOutputTokens ?? config.maxOutputTokens;
  const extraBody = { ...shared.extraBody, ...own.extraBody };
  return {
    ...shared,
    ...own,
    ...(maxOutputTokens !== null && { maxOutputTokens }),
    ...(Object.keys(extraBody).length > 0 && { extraBody }),
  };
}

/** What of the configured headers has to be kept out of records; of `Bearer …` the second word too. */
export function secretsOfHeaders(headers: Record<string, string> = {}): string[] {
  return Object.entries(headers).flatMap(([name, value]) =>
    publicHeaders.test(name) ? [] : [value, value.trim().split(/\s+/).at(-1) ?? ""],
  );
}

function checkModelParameters(value: unknown, isStored: boolean): Checked<ModelParameters> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    const message = `expected an object such as {"temperature": 0}, got ${describeValue(value)}`;
    return { problems: [{ name: "", message }] };
  }
  const checked = checkFields(modelParametersSchema, value);
  if ("problems" in checked) return checked;
  const { extraBody = {}, extraHeaders = {} } = checked.data;
  const problems = [
    ...Object.keys(extraBody).flatMap(refuseMember),
    ...Object.entries(extraHeaders).flatMap(([name, text]) => refuseHeader({ name, text, isStored })),
  ];
  return problems.length > 0 ? { problems } : checked;
}

function refuseMember(name: string): { name: string; message: string }[] {
  if (!Object.hasOwn(ownMembers, name)) return [];
  return [{ name: `extraBody.${name}`, message: `cannot be set here: ${ownMembers[name]}` }];
}

/** No message repeats a value. */
function refuseHeader(header: { name: string; text: string; isStored: boolean }) {
  const { name, text, isStored } = header;
  const problem = (message: string) => [{ name: `extraHeaders.${name}`, message }];
  if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name)) return problem("expected the name of a header");
  if (ownHeaders.test(name)) return problem("cannot be set here: leave it out");
  if (!/^[\t\x20-\x7e]*$/.test(text)) return problem("expected printable ASCII characters");
  if (isStored && credentialHeaders.test(name))
    return problem("would be stored with the task: set it in modelParameters of the configuration");
  return [];
}
