import { eq, inArray, sql } from "drizzle-orm";
import { type GateReason, gates } from "./schema.ts";
import type { StoreContext } from "./store.ts";

export type { GateReason };
export type GateRow = typeof gates.$inferSelect;
/** What is known of one, but for its name. */
export type GateState = Omit<GateRow, "name">;

/** The verbs of the gates before providers. What they decide is not known here. */
export function gateVerbs({ sqlite, db, read, write, now }: StoreContext) {
  const { placeholder } = sql;
  const find = db
    .select()
    .from(gates)
    .where(eq(gates.name, placeholder("name")))
    .prepare();
  // Of a worker that has died or lost its lease nothing is under way any more.
  const countHeld = sqlite.prepare<{ name: string; now: number }, { held: number }>(`
    SELECT coalesce(sum(held), 0) AS held FROM gate_slots JOIN workers ON workers.id = worker_id
    WHERE name = @name AND lease_until > @now`);
  const hold = sqlite.prepare(`
    INSERT INTO gate_slots (name, worker_id, held) VALUES (@name, @workerId, max(0, @slots))
    ON CONFLICT DO UPDATE SET held = max(0, held + @slots)`);

  return {
    /** A gate, and how many requests are under way there that were counted. */
    getGate(name: string): Promise<{ row: GateRow; held: number } | undefined> {
      return read(() => {
        const row = find.get({ name });
        return row && { row, held: countHeld.get({ name, now: now() })?.held ?? 0 };
      });
    },

    /** Those that are shut at the moment. */
    loadShutGates(): Promise<GateRow[]> {
      const isShut = sql`reason IS NOT NULL AND (paused_until IS NULL OR paused_until > ${now()})`;
      return read(() => db.select().from(gates).where(isShut).orderBy(gates.name).all());
    },

    /**
     * Changes a gate in one transaction, and by `slots` how many requests the worker has under way. `change` gets the row, if
     * there is one, and how many are under way; null leaves everything as it is.
     */
    changeGate(
      name: string,
      { workerId, slots }: { workerId: string; slots: 1 | 0 | -1 },
      change: (row: GateRow | undefined, held: number) => GateState | null,
    ): Promise<void> {
      return write(() => {
        const held = countHeld.get({ name, now: now() })?.held ?? 0;
        const next = change(find.get({ name }), held);
        if (next === null) return;
        db.insert(gates)
          .values({ ...next, name })
          .onConflictDoUpdate({ target: gates.name, set: next })
          .run();
        if (slots !== 0) hold.run({ name, workerId, slots });
      });
    },

    /** Opens the gates that are shut for one of these reasons, as people say that it is mended; gives how many there were. */
    openGates(reasons: GateReason[] = ["busy", "quota", "auth", "failing"]): Promise<number> {
      return write(() => {
        const open = { reason: null, note: null, pausedUntil: null, refusals: 0, nextAt: 0 };
        return db.update(gates).set(open).where(inArray(gates.reason, reasons)).run().changes;
      });
    },
  };
}
