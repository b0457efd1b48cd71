import { and, eq, isNull, sql } from "drizzle-orm";
import { appliedMigrationQuery } from "./open.ts";
import { workers } from "./schema.ts";
import type { StoreContext } from "./store.ts";
import type { WorkerRow } from "./workers.ts";

/** Why a worker that nobody signalled has to stop: somebody asked for it, or a newer pawl has migrated the file under it. */
export type StopReason = "asked" | "newer_schema";

/** What people ask of workers, and what workers say of themselves beside their runs. */
export function stopVerbs({ sqlite, db, read, write, now, newestMigration }: StoreContext) {
  const findReason = sqlite.prepare<[string], { schemaAt: number; drainAt: number | null }>(`
    SELECT (${appliedMigrationQuery}) AS schemaAt, (SELECT drain_at FROM workers WHERE id = ?) AS drainAt`);

  return {
    /** Asks a worker to stop as SIGTERM would; again changes nothing. */
    askToStop(workerId: string): Promise<void> {
      return write(() => {
        const isAlive = and(eq(workers.id, workerId), isNull(workers.stoppedAt));
        db.update(workers)
          .set({ drainAt: sql`coalesce(${workers.drainAt}, ${now()})` })
          .where(isAlive)
          .run();
      });
    },

    /** Null as long as nothing speaks against going on. Asked often: one look-up. */
    async getStopReason(workerId: string): Promise<StopReason | null> {
      const row = await read(() => findReason.get(workerId));
      if (row === undefined) return null;
      if (row.schemaAt > newestMigration) return "newer_schema";
      return row.drainAt === null ? null : "asked";
    },

    getWorker(workerId: string): Promise<WorkerRow | undefined> {
      return read(() => db.select().from(workers).where(eq(workers.id, workerId)).get());
    },

    /** What people should know of a worker that is alive; null takes it back. */
    noteWorker(workerId: string, detail: string | null): Promise<void> {
      return write(() => {
        // Its own thread may have written that it is stuck: that stays.
        const mayWrite = sql`stopped_at IS NULL AND detail IS NOT 'stuck'`;
        db.update(workers)
          .set({ detail })
          .where(and(eq(workers.id, workerId), mayWrite))
          .run();
      });
    },
  };
}
