import type { LogTail } from "../db/tail.ts";
import type { RunState } from "./next-action.ts";
import { estimateWindow } from "./window.ts";

/** A provider's count below this part of our estimate is not believed. */
const leastPlausibleShare = 1 / 3;

/** What was measured at the last request: the provider's own count, and our estimate of the same messages. */
export interface Measurement {
  promptTokens: number;
  estimatedTokens: number;
}

/**
 * Tokens of the window, corrected by the provider's count at the last request where there is one. A count far below the
 * estimate is no count: some servers report nothing, or leave out what they had cached.
 */
export function windowTokens(estimatedTokens: number, measured: Measurement | null): number {
  if (measured === null || !isPlausible(measured)) return estimatedTokens;
  return measured.promptTokens + (estimatedTokens - measured.estimatedTokens);
}

export function isPlausible({ promptTokens, estimatedTokens }: Measurement): boolean {
  return promptTokens >= estimatedTokens * leastPlausibleShare;
}

/** The provider's count at the request that brought the newest reply, if that was after the compaction. */
export function measureTail(state: RunState, tail: LogTail): Measurement | null {
  const call = tail.lastAnswered;
  const reply = state.entries.findLast((entry) => entry.kind === "reply");
  if (!reply || call === null || call.promptTokens === null || call.step !== reply.step) return null;
  if (tail.compaction && (tail.compaction.modelCall ?? 0) >= call.n) return null;
  const since = state.entries.reduce((sum, entry) => sum + (entry.seq >= reply.seq ? entry.tokens : 0), 0);
  return { promptTokens: call.promptTokens, estimatedTokens: estimateWindow(state) - since };
}
