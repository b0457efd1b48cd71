import { sql } from "drizzle-orm";
import { events } from "./schema.ts";
import type { StoreContext } from "./store.ts";

/** A named fact for "what happened to this run?". Never one a step. */
export interface NewEvent {
  kind: string;
  runId?: string | undefined;
  batchId?: string | undefined;
  workerId?: string | undefined;
  epoch?: number | undefined;
  data?: Record<string, unknown> | undefined;
}

/** Returns the function that records an event inside the current transaction. */
export function recordEvent({ db, now }: StoreContext): (event: NewEvent) => void {
  const { placeholder } = sql;
  const insert = db
    .insert(events)
    .values({
      at: placeholder("at"),
      runId: placeholder("runId"),
      batchId: placeholder("batchId"),
      workerId: placeholder("workerId"),
      epoch: placeholder("epoch"),
      kind: placeholder("kind"),
      data: placeholder("data"),
    })
    .prepare();
  return (event) => {
    insert.run({
      at: now(),
      runId: event.runId ?? null,
      batchId: event.batchId ?? null,
      workerId: event.workerId ?? null,
      epoch: event.epoch ?? null,
      kind: event.kind,
      data: event.data ? JSON.stringify(event.data) : null,
    });
  };
}
