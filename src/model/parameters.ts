import { createRedact, type Redact, secretsOf } from "../redact.ts";
import type { ModelRequest } from "./model.ts";
import type { Profile } from "./profiles.ts";

/** Members that mean nothing, and are refused, where no tools are offered: in summaries, and where a protocol is text. */
const toolMembers = ["tool_choice", "parallel_tool_calls"];

/** The members of a body that the parameters make. They go before all others, so that none of ours is overwritten. */
export function parameterBody({ parameters, tools = [] }: ModelRequest, profile: Profile): object {
  const { temperature, seed, reasoningEffort, extraBody = {} } = parameters ?? {};
  const extra = Object.entries(extraBody).filter(([name]) => tools.length > 0 || !toolMembers.includes(name));
  return {
    ...Object.fromEntries(extra),
    ...(temperature !== undefined && { temperature }),
    ...(seed !== undefined && { [profile.seedParameter]: seed }),
    ...(reasoningEffort !== undefined && { reasoning_effort: reasoningEffort }),
  };
}

/** Takes the values of headers out of a text; of `Bearer …` the second word too. */
export function redactHeaders(headers: Record<string, string> = {}): Redact {
  const values = Object.values(headers).flatMap((value) => [value, value.trim().split(/\s+/).at(-1) ?? ""]);
  return createRedact(secretsOf({}, values));
}
