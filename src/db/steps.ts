import { and, desc, eq, lte, sql } from "drizzle-orm";
import { calls, messages, snapshots } from "./schema.ts";
import type { StoreContext } from "./store.ts";
import { pinnedMessages } from "./tail.ts";

/** Where a step of a run's log ends. */
export interface StepEnd {
  /** Its last message. */
  seq: number;
  /** The newest snapshot up to there; null where there is none. */
  tree: string | null;
  /** Whether all calls up to there are answered. */
  isAnswered: boolean;
}

/** Returns the function that finds the end of a step; undefined where the log does not reach it. Step 0 is before the first request. */
export function stepFinder({ db }: Pick<StoreContext, "db">) {
  return (runId: string, step: number): StepEnd | undefined => {
    const ofRun = eq(messages.runId, runId);
    const last = db
      .select({ seq: messages.seq, step: messages.step })
      .from(messages)
      .where(and(ofRun, lte(messages.step, step)))
      .orderBy(desc(messages.seq))
      .limit(1)
      .get();
    if (last?.step !== step || last.seq < pinnedMessages) return undefined;
    const snapshot = db
      .select({ tree: snapshots.tree })
      .from(snapshots)
      .where(and(eq(snapshots.runId, runId), lte(snapshots.seq, last.seq)))
      .orderBy(desc(snapshots.seq))
      .limit(1)
      .get();
    const open = db
      .select({ step: calls.step })
      .from(calls)
      .where(and(eq(calls.runId, runId), sql`state IN ('planned', 'asked', 'started') AND step = ${step}`))
      .limit(1)
      .get();
    return { seq: last.seq, tree: snapshot?.tree ?? null, isAnswered: open === undefined };
  };
}

/** Reads about single steps of a run. */
export function stepVerbs({ db, read }: StoreContext) {
  const find = stepFinder({ db });
  return {
    getStep(runId: string, step: number): Promise<StepEnd | undefined> {
      return read(() => find(runId, step));
    },
  };
}
