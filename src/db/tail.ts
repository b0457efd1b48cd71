import { and, asc, desc, eq, gt, lte, max, or, sql } from "drizzle-orm";
import type { CallRow, CompactionRow, MessageRow, ModelCallRow } from "./read.ts";
import { blobs, calls, compactions, messages, modelCalls, runs } from "./schema.ts";
import type { StoreContext } from "./store.ts";

/** What a resuming worker needs: the prompt, the task, and the log since the last compaction. Its size is the window's, not the history's. */
export interface LogTail {
  /** System prompt and tool schemas as stored by the first owner; null before it began. */
  prompt: string | null;
  compaction: CompactionRow | null;
  compactions: number;
  /** The first two messages (system and task) and those after the compaction. */
  messages: MessageRow[];
  openCalls: CallRow[];
  lastModelCall: ModelCallRow | null;
  /** The request that brought the newest reply. */
  lastAnswered: ModelCallRow | null;
  /** Steps of another run that this one goes on from, and that do not count for it. */
  copiedSteps: number;
}

/** Messages that stand before every compaction: system prompt and task. */
export const pinnedMessages = 2;

/** Returns the function that reads the tail of a run's log. */
export function tailReader({ db }: Pick<StoreContext, "db">) {
  function newestModelCall(runId: string, isAnswered: boolean): ModelCallRow | null {
    const answered = isAnswered ? sql`state = 'done' AND purpose = 'step'` : undefined;
    const ofRun = and(eq(modelCalls.runId, runId), answered);
    return db.select().from(modelCalls).where(ofRun).orderBy(desc(modelCalls.n)).limit(1).get() ?? null;
  }

  function copiedSteps(runId: string): number {
    const isLastCopied = and(eq(messages.runId, runs.id), eq(messages.seq, runs.originSeq));
    const found = db
      .select({ step: messages.step })
      .from(runs)
      .innerJoin(messages, isLastCopied)
      .where(eq(runs.id, runId))
      .get();
    return found?.step ?? 0;
  }

  /** Calls are answered before the model is asked again, so only those of the newest step can be open. */
  function isOfNewestStep(runId: string) {
    return sql`${calls.step} = (SELECT max(step) FROM calls WHERE run_id = ${runId})`;
  }

  return (runId: string, promptHash: string | null): LogTail => {
    const ofRun = eq(compactions.runId, runId);
    const compaction = db
      .select()
      .from(compactions)
      .where(and(ofRun, sql`kind != 'prune'`))
      .orderBy(desc(compactions.n))
      .limit(1)
      .get();
    const newest = db
      .select({ n: max(compactions.n) })
      .from(compactions)
      .where(ofRun)
      .get();
    const prompt = promptHash ? db.select().from(blobs).where(eq(blobs.hash, promptHash)).get() : undefined;
    const isInWindow = or(lte(messages.seq, pinnedMessages), gt(messages.seq, compaction?.throughSeq ?? 0));
    return {
      prompt: prompt?.body ?? null,
      compaction: compaction ?? null,
      compactions: newest?.n ?? 0,
      messages: db
        .select()
        .from(messages)
        .where(and(eq(messages.runId, runId), isInWindow))
        .orderBy(asc(messages.seq))
        .all(),
      openCalls: db
        .select()
        .from(calls)
        .where(
          and(eq(calls.runId, runId), isOfNewestStep(runId), sql`state IN ('planned', 'asked', 'started')`),
        )
        .orderBy(asc(calls.ordinal))
        .all(),
      lastModelCall: newestModelCall(runId, false),
      lastAnswered: newestModelCall(runId, true),
      copiedSteps: copiedSteps(runId),
    };
  };
}
