import { eq, sql } from "drizzle-orm";
import { runs, snapshots } from "./schema.ts";
import type { StoreContext } from "./store.ts";

/**
 * Returns the function that records the tree of a workspace as it is after message `seq`, inside the transaction that
 * appends the message: so log and snapshot cannot disagree.
 */
export function snapshotWriter({ db, now }: StoreContext) {
  const { placeholder } = sql;
  const insert = snapshotInsert({ db });
  const update = db
    .update(runs)
    .set({ tree: sql`${placeholder("tree")}` })
    .where(eq(runs.id, placeholder("runId")))
    .prepare();
  return (runId: string, seq: number, tree: string): void => {
    insert.run({ runId, seq, tree, at: now() });
    update.run({ runId, tree });
  };
}

/** Adds a snapshot; one that is there stays, since a beginning may be repeated. */
export function snapshotInsert({ db }: Pick<StoreContext, "db">) {
  const { placeholder } = sql;
  return db
    .insert(snapshots)
    .values({
      runId: placeholder("runId"),
      seq: placeholder("seq"),
      tree: placeholder("tree"),
      at: placeholder("at"),
    })
    .onConflictDoNothing()
    .prepare();
}
