import { and, asc, desc, eq, gt, isNull, like, type SQL, sql } from "drizzle-orm";
import { ConfigError } from "../errors.ts";
import type { Status } from "../outcome.ts";
import { requireBatch } from "./batches.ts";
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
} from "./schema.ts";
import { isBusy } from "./sqlite-error.ts";
import type { StoreContext } from "./store.ts";
import { type LogTail, tailReader } from "./tail.ts";

export type MessageRow = typeof messages.$inferSelect;
export type CallRow = typeof calls.$inferSelect;
export type ModelCallRow = typeof modelCalls.$inferSelect;
export type CompactionRow = typeof compactions.$inferSelect;
export type EventRow = typeof events.$inferSelect;

/** Runs with the name of their batch, null is the default batch, and how many steps of another run they begin with. */
export type RunView = typeof runs.$inferSelect & { batch: string | null; copiedSteps: number };

/** Which runs to look at. */
export interface RunFilter {
  /** Name of a batch. */
  batch?: string | undefined;
  status?: Status | undefined;
  limit?: number | undefined;
}

const latestFirst = desc(runs.id);
/** Of the origin as long as the fork has not copied its log, of the fork where the origin is gone. */
const copiedSteps = sql<number>`coalesce(
  (SELECT step FROM messages WHERE run_id = ${runs.originRunId} AND seq = ${runs.originSeq}),
  (SELECT step FROM messages WHERE run_id = ${runs.id} AND seq = ${runs.originSeq}), 0)`;

/** Reads. They see what is committed and wait for nobody who writes. */
export function readVerbs({ sqlite, db, read, commits }: StoreContext) {
  const version = sqlite.prepare<[], { data_version: number }>("PRAGMA data_version");
  const tail = tailReader({ db });
  let lastVersion = 0;

  function view(condition: SQL | undefined, limit = -1): RunView[] {
    return db
      .select({ run: runs, batch: batches.name, copiedSteps })
      .from(runs)
      .innerJoin(batches, eq(batches.id, runs.batchId))
      .where(condition)
      .orderBy(latestFirst)
      .limit(limit)
      .all()
      .map(({ run, ...more }) => ({ ...run, ...more }));
  }

  function find(reference: string): RunView[] {
    const exact = view(eq(runs.id, reference));
    const byKey = exact.length > 0 ? exact : view(and(eq(runs.key, reference), sql`superseded = 0`), 3);
    const isPrefix = /^[0-9a-z]+$/.test(reference);
    return byKey.length > 0 || !isPrefix ? byKey : view(like(runs.id, `${reference}%`), 3);
  }

  return {
    /** Changes whenever anybody commits: SQLite counts for other connections, the writer for this one. */
    dataVersion(): number {
      try {
        lastVersion = version.get()?.data_version ?? 0;
      } catch (error) {
        if (!isBusy(error)) throw error;
      }
      return lastVersion + commits();
    },

    getRun(id: string): Promise<RunView | undefined> {
      return read(() => view(eq(runs.id, id))[0]);
    },

    /** The run that an id, a unique prefix of one, or a key means. Throws ConfigError if none or several. */
    async findRun(reference: string): Promise<RunView> {
      const found = await read(() => find(reference));
      const [only] = found;
      if (found.length === 1 && only) return only;
      const ids = found.map((run) => run.id).join(", ");
      const got = found.length === 0 ? "none" : `${ids}${found.length > 2 ? ", …" : ""}`;
      throw new ConfigError(
        `expected one run with the id, the prefix of an id, or the key ${JSON.stringify(reference)}, got ${got}: see pawl list`,
      );
    },

    /** Newest first; superseded attempts only by their id. */
    loadRuns(filter: RunFilter): Promise<RunView[]> {
      return read(() => {
        const { batch, status, limit } = filter;
        const inBatch = batch === undefined ? undefined : eq(runs.batchId, requireBatch(db, batch));
        const withStatus = status === undefined ? undefined : eq(runs.status, status);
        return view(and(sql`superseded = 0`, inBatch, withStatus), limit);
      });
    },

    loadTail(runId: string, promptHash: string | null): Promise<LogTail> {
      return read(() => tail(runId, promptHash));
    },

    /** The whole log after `afterSeq`, in order. */
    loadMessages(runId: string, afterSeq = 0): Promise<MessageRow[]> {
      const after = and(eq(messages.runId, runId), gt(messages.seq, afterSeq));
      return read(() => db.select().from(messages).where(after).orderBy(asc(messages.seq)).all());
    },

    /** What is stored by its hash: a system prompt with its tool schemas, an image. */
    async getBlob(hash: string): Promise<string | undefined> {
      const row = await read(() => db.select().from(blobs).where(eq(blobs.hash, hash)).get());
      return row?.body;
    },

    loadCalls(runId: string): Promise<CallRow[]> {
      const order = [asc(calls.step), asc(calls.ordinal)];
      return read(() =>
        db
          .select()
          .from(calls)
          .where(eq(calls.runId, runId))
          .orderBy(...order)
          .all(),
      );
    },

    loadModelCalls(runId: string): Promise<ModelCallRow[]> {
      const ofRun = eq(modelCalls.runId, runId);
      return read(() => db.select().from(modelCalls).where(ofRun).orderBy(asc(modelCalls.n)).all());
    },

    loadCompactions(runId: string): Promise<CompactionRow[]> {
      const ofRun = eq(compactions.runId, runId);
      return read(() => db.select().from(compactions).where(ofRun).orderBy(asc(compactions.n)).all());
    },

    loadSnapshots(runId: string): Promise<(typeof snapshots.$inferSelect)[]> {
      const ofRun = eq(snapshots.runId, runId);
      return read(() => db.select().from(snapshots).where(ofRun).orderBy(asc(snapshots.seq)).all());
    },

    /** What happened to a run, or to all of them, after the event `afterId`. */
    loadEvents(options: { runId?: string; afterId?: number }): Promise<EventRow[]> {
      const ofRun = options.runId === undefined ? undefined : eq(events.runId, options.runId);
      const after = and(ofRun, gt(events.id, options.afterId ?? 0));
      return read(() => db.select().from(events).where(after).orderBy(asc(events.id)).all());
    },

    /** Whether some run that has not ended (or this one) has no model: its task names none, and it has not begun. */
    hasRunWithoutModel(runId?: string): Promise<boolean> {
      const isOpen = sql`status IN ('queued', 'running', 'waiting') AND model IS NULL`;
      const ofRun = runId === undefined ? undefined : eq(runs.id, runId);
      const find = () => db.select({ id: runs.id }).from(runs).where(and(isOpen, ofRun)).limit(1).get();
      return read(() => find() !== undefined);
    },

    /** The run that has a lane, or is the first in line for it. */
    getLaneHolder(lane: string) {
      const holds = and(eq(runs.lane, lane), sql`ready = 1`, isNull(runs.finishedAt));
      const columns = { id: runs.id, status: runs.status, waitKind: runs.waitKind };
      return read(() => db.select(columns).from(runs).where(holds).limit(1).get());
    },
  };
}
