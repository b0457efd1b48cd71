import { and, eq, gt, sql } from "drizzle-orm";
import { messages } from "./schema.ts";
import type { StoreContext } from "./store.ts";

/**
 * Returns the function that says whether a run made a step since its newest claim, inside the caller's transaction. A reply
 * is progress; answers that recovery itself wrote are none.
 */
export function progressCheck({ db }: Pick<StoreContext, "db">) {
  const { placeholder } = sql;
  const findReply = db
    .select({ seq: messages.seq })
    .from(messages)
    .where(
      and(
        eq(messages.runId, placeholder("id")),
        gt(messages.seq, placeholder("claimSeq")),
        eq(messages.epoch, placeholder("epoch")),
        sql`kind = 'reply'`,
      ),
    )
    .limit(1)
    .prepare();
  return ({ id, claimSeq, epoch }: { id: string; claimSeq: number; epoch: number }): boolean =>
    findReply.get({ id, claimSeq, epoch }) !== undefined;
}
