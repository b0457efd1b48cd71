import { RunAborted } from "../abort.ts";
import type { Claim, RunRow } from "../db/claim.ts";
import type { Store } from "../db/store.ts";
import { LeaseLostError } from "../errors.ts";
import { specSchema } from "../producer/task.ts";

interface ClockOptions {
  store: Pick<Store, "now" | "confirmOwned">;
  claim: Claim;
  run: Pick<RunRow, "spec" | "activeMs">;
  controller: AbortController;
}

/** Counts the run's active time over all owners and ends it when its time limit is reached. */
export function startClock({ store, claim, run, controller }: ClockOptions) {
  const startedAt = store.now();
  const activeMs = () => run.activeMs + Math.max(0, store.now() - startedAt);
  const limit = specSchema.shape.timeLimitMs.safeParse(JSON.parse(run.spec).timeLimitMs).data ?? null;

  // A process that was stopped for a while wakes with this timer due, and the run's commands may be somebody else's now.
  async function end(): Promise<void> {
    const isLost = await store.confirmOwned(claim).then(
      () => false,
      (error) => error instanceof LeaseLostError,
    );
    controller.abort(new RunAborted(isLost ? "lease_lost" : "time_limit"));
  }

  const timer = limit === null ? undefined : setTimeout(() => void end(), Math.max(0, limit - run.activeMs));
  return { activeMs, stop: () => clearTimeout(timer) };
}
