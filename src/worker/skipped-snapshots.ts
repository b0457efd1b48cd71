import type { Claim } from "../db/claim.ts";
import type { Store } from "../db/store.ts";

const kind = "snapshot_skipped";

/** Records that the workspace could not be recorded, once a run: it may be so after every step. */
export async function recordSkipped(store: Store, claim: Claim, reason: string): Promise<void> {
  if (await hasSkipped(store, claim.runId)) return;
  await store.addEvent(claim, { kind, data: { reason } });
}

/** Whether the snapshot of some step is missing. */
export async function hasSkipped(store: Store, runId: string): Promise<boolean> {
  return (await findReason(store, runId)) !== undefined;
}

/** For the outcome's notes: what a person should know where steps have no snapshot. */
export async function skippedNotes(store: Store, runId: string): Promise<string[]> {
  const reason = await findReason(store, runId);
  return reason === undefined ? [] : [`some steps have no snapshot of the workspace: ${reason}`];
}

async function findReason(store: Store, runId: string): Promise<string | undefined> {
  const event = (await store.loadEvents({ runId })).find((each) => each.kind === kind);
  if (event === undefined) return undefined;
  const { reason } = JSON.parse(event.data ?? "{}") as { reason?: unknown };
  return String(reason);
}
