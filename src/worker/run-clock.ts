import { RunAborted } from "../abort.ts";
import type { RunRow } from "../db/claim.ts";
import type { Store } from "../db/store.ts";
import { specSchema } from "../producer/task.ts";

/** Counts the run's active time over all owners and ends it when its time limit is reached. */
export function startClock(store: Store, row: RunRow, controller: AbortController) {
  const startedAt = store.now();
  const activeMs = () => row.activeMs + Math.max(0, store.now() - startedAt);
  const limit = specSchema.shape.timeLimitMs.safeParse(JSON.parse(row.spec).timeLimitMs).data ?? null;
  const timer =
    limit === null
      ? undefined
      : setTimeout(() => controller.abort(new RunAborted("time_limit")), Math.max(0, limit - row.activeMs));
  return { activeMs, stop: () => clearTimeout(timer) };
}
