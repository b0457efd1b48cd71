/** How a model may write its actions; the first is what a task gets that says nothing. */
export const protocolNames = ["native", "bash-block", "react"] as const;
export type ProtocolName = (typeof protocolNames)[number];

/** Why a task with these tools cannot use the protocol; null where it can. Null as tools is all of them. */
export function refusedTools(protocol: ProtocolName, tools: string[] | null): string | null {
  if (protocol !== "bash-block" || tools === null) return null;
  if (tools.length === 1 && tools[0] === "bash") return null;
  return `expected bash and no other tool with the protocol bash-block, got ${tools.join(", ") || "none"}; leave tools out, or use react or native`;
}
