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
