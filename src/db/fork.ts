import { and, asc, eq, gt, lte, sql } from "drizzle-orm";
import { ConfigError, WorkspaceError } from "../errors.ts";
import type { Claim } from "./claim.ts";
import { recordEvent } from "./events.ts";
import { isOwned, lostLease } from "./fence.ts";
import { messageInsert } from "./log-statements.ts";
import { messages, runs } from "./schema.ts";
import { stepFinder } from "./steps.ts";
import type { StoreContext } from "./store.ts";

/** Messages copied in one transaction. */
const pageSize = 500;

/** A fork is made with its origin named; its first owner copies the log, and until then the origin has to stay. */
export function forkVerbs(context: StoreContext) {
  const { db, write, now, newId } = context;
  const record = recordEvent(context);
  const findStep = stepFinder(context);
  const statements = prepareStatements(context);

  return {
    /**
     * Makes a run that goes on from another one's step, without its key. `followUp` is told to the model first. Gives
     * the new id. Throws ConfigError where that step cannot be gone on from.
     */
    async fork(id: string, options: { step: number; followUp: string | null }): Promise<string> {
      // Loaded when it is used, as in `retry`.
      const { specSchema } = await import("../producer/task.ts");
      return write(() => {
        const run = db.select().from(runs).where(eq(runs.id, id)).get();
        if (!run) throw new ConfigError(`expected the id of a run, got ${id}: see pawl list`);
        const { step, followUp } = options;
        const end = findStep(id, step);
        if (!end) {
          throw new ConfigError(`expected a step that run ${id} has, got ${step}: see pawl logs ${id}`);
        }
        if (!end.isAnswered) {
          throw new ConfigError(
            `expected a step whose calls are answered, got ${step}, which is not complete: fork an earlier step`,
          );
        }
        if (end.tree === null) {
          throw new ConfigError(
            `run ${id} has no snapshot of its workspace up to step ${step}: retry it instead`,
          );
        }
        const { followUp: _earlier, ...spec } = specSchema.parse(JSON.parse(run.spec));
        const newRun = newId();
        db.insert(runs)
          .values({
            id: newRun,
            batchId: run.batchId,
            origin: "fork",
            originRunId: id,
            originSeq: end.seq,
            // A fork of a run in place has a folder of its own: that of the origin holds what came after.
            spec: JSON.stringify({ ...spec, dir: null, ...(followUp !== null && { followUp }) }),
            specHash: run.specHash,
            promptHash: run.promptHash,
            repo: run.repo,
            model: run.model,
            priority: run.priority,
            baseCommit: spec.dir === null ? run.baseCommit : null,
            createdAt: now(),
          })
          .run();
        record({ kind: "forked", runId: newRun, batchId: run.batchId, data: { of: id, step } });
        return newRun;
      });
    },

    /** Copies the next part of the origin's log; true once all of it is there. What is copied counts as no step. */
    copyOrigin(claim: Claim): Promise<boolean> {
      return write(() => {
        const run = statements.getOwned.get({ ...claim, now: now() });
        if (!run) throw lostLease(claim);
        const { seq, originRunId, originSeq } = run;
        if (originRunId === null || originSeq === null || seq >= originSeq) return true;
        const page = db
          .select()
          .from(messages)
          .where(and(eq(messages.runId, originRunId), gt(messages.seq, seq), lte(messages.seq, originSeq)))
          .orderBy(asc(messages.seq))
          .limit(pageSize)
          .all();
        if (page.length === 0)
          throw new WorkspaceError(`the run ${originRunId}, which this is a fork of, is gone`);
        for (const { id: _id, ...message } of page) {
          statements.advance.run({ runId: claim.runId, seq: message.seq });
          statements.insertMessage.run({ ...message, runId: claim.runId, epoch: claim.epoch });
        }
        if (page.at(-1)?.seq !== originSeq) return false;
        statements.copyCompactions.run({ runId: claim.runId, originRunId, originSeq });
        statements.copySnapshots.run({ runId: claim.runId, originRunId, originSeq });
        statements.takeTree.run({ runId: claim.runId });
        return true;
      });
    },
  };
}

function prepareStatements({ sqlite, db }: StoreContext) {
  const { placeholder } = sql;
  type Copy = [{ runId: string; originRunId: string; originSeq: number }];
  return {
    getOwned: db
      .select({ seq: runs.seq, originRunId: runs.originRunId, originSeq: runs.originSeq })
      .from(runs)
      .where(isOwned())
      .prepare(),
    advance: db
      .update(runs)
      .set({ seq: sql`${placeholder("seq")}` })
      .where(eq(runs.id, placeholder("runId")))
      .prepare(),
    insertMessage: messageInsert({ db }),
    // The requests that wrote the summaries are not this run's.
    copyCompactions: sqlite.prepare<Copy>(`
      INSERT INTO compactions (run_id, n, kind, through_seq, body, model_call, tokens_before, tokens_after, at)
      SELECT @runId, n, kind, through_seq, body, NULL, tokens_before, tokens_after, at FROM compactions
      WHERE run_id = @originRunId AND through_seq <= @originSeq AND at <= (
        SELECT at FROM messages WHERE run_id = @originRunId AND seq = @originSeq)`),
    copySnapshots: sqlite.prepare<Copy>(`
      INSERT INTO snapshots (run_id, seq, tree, at)
      SELECT @runId, seq, tree, at FROM snapshots WHERE run_id = @originRunId AND seq <= @originSeq`),
    takeTree: sqlite.prepare<[{ runId: string }]>(`
      UPDATE runs SET tree = (SELECT tree FROM snapshots WHERE run_id = @runId ORDER BY seq DESC LIMIT 1)
      WHERE id = @runId`),
  };
}
