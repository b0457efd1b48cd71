import { redactedMark } from "../redact.ts";
import type { PendingCall } from "./next-action.ts";
import type { ParsedReply } from "./protocols/protocol.ts";

// The record of a reply lacks the secrets in it. A call that was run from it would do something else than was meant.

/** Gives the calls the arguments that the model sent. A mark in these is one that the model was shown and sent back. */
export function restoreArguments(pending: PendingCall[], meant: ParsedReply): void {
  if (meant.kind !== "calls") return;
  for (const [index, call] of pending.entries()) {
    call.argumentsText = meant.calls[index]?.argumentsText ?? call.argumentsText;
  }
  findRedacted(pending);
}

/** Finds the calls that cannot be run as they were meant. */
export function findRedacted(pending: PendingCall[]): void {
  for (const call of pending) call.isRedacted = call.argumentsText.includes(redactedMark);
}

/** The result of such a call. In a shell the mark would even be a pattern. */
export const redactedResult = `Error: not run. ${redactedMark} in the arguments stands for the value of a secret, which is not recorded. Send the call again without it: take the value from its variable or file, or leave that part of the text alone.`;
