import type { EventRow, MessageRow } from "../db/read.ts";
import type { Store } from "../db/store.ts";

/** One line of `logs`: a message of the run, or an event about it. */
export interface TimelineEntry {
  at: string;
  type: "message" | "event";
  kind: string;
  step: number | null;
  seq: number | null;
  epoch: number | null;
  /** The message as stored, or the event's facts. */
  data: unknown;
}

/** Where a reader of a timeline has come to. */
export interface TimelineCursor {
  seq: number;
  eventId: number;
}

/** What came after the cursor, in the order of time; moves the cursor. */
export async function readTimeline(
  store: Store,
  runId: string,
  cursor: TimelineCursor,
): Promise<TimelineEntry[]> {
  const messages = await store.loadMessages(runId, cursor.seq);
  const events = await store.loadEvents({ runId, afterId: cursor.eventId });
  cursor.seq = messages.at(-1)?.seq ?? cursor.seq;
  cursor.eventId = events.at(-1)?.id ?? cursor.eventId;
  const entries = [...events.map(ofEvent), ...messages.map(ofMessage)];
  return entries.sort((a, b) => a.at.localeCompare(b.at));
}

function ofMessage(row: MessageRow): TimelineEntry {
  const { kind, step, seq, epoch } = row;
  const at = new Date(row.at).toISOString();
  return { at, type: "message", kind, step, seq, epoch, data: JSON.parse(row.body) };
}

function ofEvent(row: EventRow): TimelineEntry {
  const facts = row.data === null ? {} : JSON.parse(row.data);
  const data = row.workerId === null ? facts : { worker: row.workerId, ...facts };
  const at = new Date(row.at).toISOString();
  return { at, type: "event", kind: row.kind, step: null, seq: null, epoch: row.epoch, data };
}
