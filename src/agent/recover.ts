import type { ToolClass } from "../tools/tool.ts";

/**
 * What to do with a call that an earlier owner had started and nobody answered.
 * - `rerun`: running it again does no harm.
 * - `look`: the tool itself can find out what became of it.
 * - `unknown`: it may have happened; the model is told, and told to check before repeating it.
 */
export type Recovery = "rerun" | "look" | "unknown";

export function decideRecovery(call: { class: ToolClass; canLook: boolean }): Recovery {
  if (call.canLook) return "look";
  return call.class === "unsafe" ? "unknown" : "rerun";
}

/** The result of a call whose outcome nobody knows. */
export function unknownOutcome(facts: {
  tool: string;
  startedAt: number | null;
  detail: string | null;
}): string {
  const started =
    facts.startedAt === null ? "" : ` It started at ${new Date(facts.startedAt).toISOString()}.`;
  return [
    `This ${facts.tool} call was interrupted: the process that ran it died, and its outcome is unknown.${started}`,
    ...(facts.detail ? [facts.detail] : []),
    "It may have taken effect, wholly, in part or not at all. Check the present state before you repeat it.",
  ].join("\n");
}
