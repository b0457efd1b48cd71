import type { StoreContext } from "./store.ts";

/** A run that has ended and may have a workspace. */
export interface EndedRun {
  id: string;
  tree: string | null;
  headCommit: string | null;
  finishedAt: number;
}

/** The event of a run whose workspace was deleted to make room. */
export const freedKind = "workspace_freed";

export function freedVerbs({ sqlite, read }: StoreContext) {
  const findEnded = sqlite.prepare<[{ finishedAt: number; id: string; limit: number }], EndedRun>(`
    SELECT id, tree, head_commit AS headCommit, finished_at AS finishedAt FROM runs
    WHERE status IN ('succeeded', 'failed', 'cancelled') AND epoch > 0 AND (finished_at, id) > (@finishedAt, @id)
      AND NOT EXISTS (SELECT 1 FROM events WHERE run_id = runs.id AND kind = '${freedKind}')
    ORDER BY finished_at, id LIMIT @limit`);

  return {
    /** Ended runs whose workspace was not freed, oldest end first; after the run `after`. */
    loadEndedRuns(
      after: Pick<EndedRun, "id" | "finishedAt"> | undefined,
      limit: number,
    ): Promise<EndedRun[]> {
      const { id = "", finishedAt = 0 } = after ?? {};
      return read(() => findEnded.all({ id, finishedAt, limit }));
    },
  };
}
