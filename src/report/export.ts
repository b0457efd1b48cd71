import { applyMessage, emptyState, type Prompt } from "../agent/next-action.ts";
import { createProtocol } from "../agent/protocols/create.ts";
import { fillImages } from "../agent/task-images.ts";
import { unknownOutcome } from "../agent/unknown-outcome.ts";
import type { MessageRow, RunView } from "../db/read.ts";
import type { Store } from "../db/store.ts";
import type { ChatMessage } from "../model/model.ts";
import { defaultBaseUrl, profileOf } from "../model/profiles.ts";
import { loadImages } from "../stored-images.ts";
import { storedSpec } from "./stored-spec.ts";

/**
 * The whole log in OpenAI's form, nothing left out and nothing summarised. Calls that have no result are given one that
 * says so, so that every call has its result.
 */
export async function exportMessages(store: Store, run: RunView): Promise<ChatMessage[]> {
  const rows = await store.loadMessages(run.id);
  const blob = run.promptHash === null ? undefined : await store.getBlob(run.promptHash);
  const spec = storedSpec(run);
  const { baseUrl = null, provider = null } = spec.fixed ?? {};
  // Also what is not sent back to this provider is part of the log.
  const profile = { ...profileOf(baseUrl ?? defaultBaseUrl, provider), sendsBack: "everything" as const };
  const protocol = createProtocol(spec.fixed?.protocol ?? "native", profile);
  const state = emptyState();
  if (blob !== undefined) state.prompt = JSON.parse(blob) as Prompt;
  for (const row of rows) applyMessage(state, row, protocol);
  const open = state.pending.map((call) => {
    const detail =
      run.status === "running" ? "It has no result yet." : "The run ended before it was answered.";
    const content = unknownOutcome({ tool: call.name, startedAt: null, detail });
    return protocol.renderResult({ wireId: call.wireId, content, isError: true });
  });
  const entries = [state.system, state.task, ...state.entries];
  const messages = entries.flatMap((entry) => (entry ? [entry.message] : [])).concat(open);
  return fillImages(messages, await loadImages(store, spec.images));
}

/** One row of the log, as stored. */
export function exportRow(row: MessageRow): Record<string, unknown> {
  const { seq, step, epoch, kind, ordinal, tokens } = row;
  return {
    seq,
    step,
    epoch,
    kind,
    ordinal,
    tokens,
    at: new Date(row.at).toISOString(),
    body: JSON.parse(row.body),
  };
}
