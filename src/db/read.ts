import { and, asc, desc, eq, gt, isNull, like, lte, max, or, type SQL, sql } from "drizzle-orm";
import { ConfigError } from "../errors.ts";
import type { Status } from "../outcome.ts";
import {
  batches,
  blobs,
  calls,
  compactions,
  events,
  messages,
  modelCalls,
  runs,
  snapshots,
  workers,
} from "./schema.ts";
import type { StoreContext } from "./store.ts";

export type MessageRow = typeof messages.$inferSelect;
export type CallRow = typeof calls.$inferSelect;
export type ModelCallRow = typeof modelCalls.$inferSelect;
export type CompactionRow = typeof compactions.$inferSelect;
export type EventRow = typeof events.$inferSelect;

/** Runs with the name of their batch; null is the default batch. */
export type RunView = typeof runs.$inferSelect & { batch: string | null };

/** Which runs to look at. */
export interface RunFilter {
  /** Name of a batch. */
  batch?: string | undefined;
  status?: Status | undefined;
  limit?: number | undefined;
}

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
}

/** Messages that stand before every compaction: system prompt and task. */
export const pinnedMessages = 2;
const latestFirst = desc(runs.id);

/** Reads. They see what is committed and wait for nobody. */
export function readVerbs({ sqlite, db }: StoreContext) {
  const version = sqlite.prepare<[], { data_version: number }>("PRAGMA data_version");

  function view(condition: SQL | undefined, limit?: number): RunView[] {
    const query = db
      .select({ run: runs, batch: batches.name })
      .from(runs)
      .innerJoin(batches, eq(batches.id, runs.batchId))
      .where(condition)
      .orderBy(latestFirst);
    const rows = limit === undefined ? query.all() : query.limit(limit).all();
    return rows.map(({ run, batch }) => ({ ...run, batch }));
  }

  function batchId(name: string): string {
    const row = db.select({ id: batches.id }).from(batches).where(eq(batches.name, name)).get();
    if (!row)
      throw new ConfigError(`expected the name of a batch, got ${name}: no tasks were enqueued under it`);
    return row.id;
  }

  return {
    /** Changes whenever another connection commits. */
    dataVersion(): number {
      return version.get()?.data_version ?? 0;
    },

    async getRun(id: string): Promise<RunView | undefined> {
      return view(eq(runs.id, id))[0];
    },

    /** The run that an id, a unique prefix of one, or a key means. Throws ConfigError if none or several. */
    async findRun(reference: string): Promise<RunView> {
      const exact = view(eq(runs.id, reference));
      const byKey = exact.length > 0 ? exact : view(and(eq(runs.key, reference), eq(runs.superseded, 0)), 3);
      const isPrefix = /^[0-9a-z]+$/.test(reference);
      const found = byKey.length > 0 || !isPrefix ? byKey : view(like(runs.id, `${reference}%`), 3);
      const [only] = found;
      if (found.length === 1 && only) return only;
      const got =
        found.length === 0
          ? "none"
          : `${found.map((run) => run.id).join(", ")}${found.length > 2 ? ", …" : ""}`;
      throw new ConfigError(
        `expected one run with the id, the prefix of an id, or the key ${JSON.stringify(reference)}, got ${got}: see pawl list`,
      );
    },

    /** Newest first; superseded attempts only by their id. */
    async loadRuns(filter: RunFilter): Promise<RunView[]> {
      const conditions = [eq(runs.superseded, 0)];
      if (filter.batch !== undefined) conditions.push(eq(runs.batchId, batchId(filter.batch)));
      if (filter.status !== undefined) conditions.push(eq(runs.status, filter.status));
      return view(and(...conditions), filter.limit);
    },

    async loadTail(runId: string, promptHash: string | null): Promise<LogTail> {
      const last = db
        .select()
        .from(compactions)
        .where(and(eq(compactions.runId, runId), sql`kind != 'prune'`))
        .orderBy(desc(compactions.n))
        .limit(1)
        .get();
      const count = db
        .select({ n: max(compactions.n) })
        .from(compactions)
        .where(eq(compactions.runId, runId))
        .get();
      const prompt = promptHash ? db.select().from(blobs).where(eq(blobs.hash, promptHash)).get() : undefined;
      const pinned = lte(messages.seq, pinnedMessages);
      return {
        prompt: prompt?.body ?? null,
        compaction: last ?? null,
        compactions: count?.n ?? 0,
        messages: db
          .select()
          .from(messages)
          .where(and(eq(messages.runId, runId), or(pinned, gt(messages.seq, last?.throughSeq ?? 0))))
          .orderBy(asc(messages.seq))
          .all(),
        openCalls: db
          .select()
          .from(calls)
          .where(and(eq(calls.runId, runId), sql`state IN ('planned', 'asked', 'started')`))
          .orderBy(asc(calls.step), asc(calls.ordinal))
          .all(),
        lastModelCall:
          db
            .select()
            .from(modelCalls)
            .where(eq(modelCalls.runId, runId))
            .orderBy(desc(modelCalls.n))
            .limit(1)
            .get() ?? null,
      };
    },

    /** The whole log after `afterSeq`, in order. */
    async loadMessages(runId: string, afterSeq = 0): Promise<MessageRow[]> {
      return db
        .select()
        .from(messages)
        .where(and(eq(messages.runId, runId), gt(messages.seq, afterSeq)))
        .orderBy(asc(messages.seq))
        .all();
    },

    /** System prompt and tool schemas as stored. */
    async getBlob(hash: string): Promise<string | undefined> {
      return db.select().from(blobs).where(eq(blobs.hash, hash)).get()?.body;
    },

    async loadCalls(runId: string): Promise<CallRow[]> {
      return db
        .select()
        .from(calls)
        .where(eq(calls.runId, runId))
        .orderBy(asc(calls.step), asc(calls.ordinal))
        .all();
    },

    async loadModelCalls(runId: string): Promise<ModelCallRow[]> {
      return db.select().from(modelCalls).where(eq(modelCalls.runId, runId)).orderBy(asc(modelCalls.n)).all();
    },

    async loadCompactions(runId: string): Promise<CompactionRow[]> {
      return db
        .select()
        .from(compactions)
        .where(eq(compactions.runId, runId))
        .orderBy(asc(compactions.n))
        .all();
    },

    async loadSnapshots(runId: string) {
      return db.select().from(snapshots).where(eq(snapshots.runId, runId)).orderBy(asc(snapshots.seq)).all();
    },

    /** What happened to a run, or to all of them, after the event `afterId`. */
    async loadEvents(options: { runId?: string; afterId?: number }): Promise<EventRow[]> {
      const ofRun = options.runId === undefined ? undefined : eq(events.runId, options.runId);
      return db
        .select()
        .from(events)
        .where(and(ofRun, gt(events.id, options.afterId ?? 0)))
        .orderBy(asc(events.id))
        .all();
    },

    /** How many runs there are, by status and reason, and what they used. */
    async countRuns(batch?: string) {
      const condition = and(
        eq(runs.superseded, 0),
        batch === undefined ? undefined : eq(runs.batchId, batchId(batch)),
      );
      const counts = db
        .select({ status: runs.status, reason: runs.reason, count: sql<number>`count(*)` })
        .from(runs)
        .where(condition)
        .groupBy(runs.status, runs.reason)
        .all();
      const usage = db
        .select({
          promptTokens: sql<number>`coalesce(sum(prompt_tokens), 0)`,
          completionTokens: sql<number>`coalesce(sum(completion_tokens), 0)`,
          cachedTokens: sql<number>`coalesce(sum(cached_tokens), 0)`,
        })
        .from(runs)
        .where(condition)
        .get() ?? { promptTokens: 0, completionTokens: 0, cachedTokens: 0 };
      return { counts, usage };
    },

    /** Workers with a lease, and how many runs each owns. */
    async countOwned(): Promise<(typeof workers.$inferSelect & { running: number })[]> {
      const owned = sql<number>`(SELECT count(*) FROM runs WHERE owner_id = workers.id AND status = 'running')`;
      return db
        .select({ worker: workers, running: owned })
        .from(workers)
        .where(sql`stopped_at IS NULL`)
        .all()
        .map(({ worker, running }) => ({ ...worker, running }));
    },

    /** Which of a worker's runs were asked to end or to pause. */
    async loadAsked(
      workerId: string,
    ): Promise<{ id: string; cancelAt: number | null; pauseAt: number | null }[]> {
      return db
        .select({ id: runs.id, cancelAt: runs.cancelAt, pauseAt: runs.pauseAt })
        .from(runs)
        .where(
          and(
            eq(runs.ownerId, workerId),
            sql`status = 'running' AND (cancel_at IS NOT NULL OR pause_at IS NOT NULL)`,
          ),
        )
        .all();
    },

    /** Whether some run that has not ended (or this one) has no model: its task names none, and it has not begun. */
    async hasRunWithoutModel(runId?: string): Promise<boolean> {
      const isOpen = sql`status IN ('queued', 'running', 'waiting') AND model IS NULL`;
      const ofRun = runId === undefined ? undefined : eq(runs.id, runId);
      return db.select({ id: runs.id }).from(runs).where(and(isOpen, ofRun)).limit(1).get() !== undefined;
    },

    /** The run that has a lane, or is the first in line for it. */
    async getLaneHolder(lane: string) {
      return db
        .select({ id: runs.id, status: runs.status, waitKind: runs.waitKind })
        .from(runs)
        .where(and(eq(runs.lane, lane), sql`ready = 1`, isNull(runs.finishedAt)))
        .limit(1)
        .get();
    },

    /** Whether a drain must go on: runs queued or running, or waiting for a time before `wakeBefore`. */
    async hasWork(wakeBefore: number): Promise<boolean> {
      const row = sqlite
        .prepare<[number], { found: number }>(
          `SELECT EXISTS (SELECT 1 FROM runs WHERE status = 'running')
             OR EXISTS (SELECT 1 FROM runs WHERE status = 'queued' AND ready = 1)
             OR EXISTS (SELECT 1 FROM runs WHERE status = 'queued' AND ready = 0 AND lane NOT IN
                 (SELECT lane FROM runs WHERE lane IS NOT NULL AND ready = 1 AND finished_at IS NULL AND status = 'waiting'))
             OR EXISTS (SELECT 1 FROM runs WHERE status = 'waiting' AND wake_at IS NOT NULL AND wake_at <= ?) AS found`,
        )
        .get(wakeBefore);
      return row?.found === 1;
    },
  };
}
