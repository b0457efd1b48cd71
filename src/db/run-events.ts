import type { Claim } from "./claim.ts";
import { recordEvent } from "./events.ts";
import { lostLease, ownershipCheck } from "./fence.ts";
import type { StoreContext } from "./store.ts";

/** A fact about a run that no other verb records. */
export interface RunEvent {
  kind: string;
  data: Record<string, unknown>;
}

export function runEventVerbs(context: StoreContext) {
  const { write, now } = context;
  const record = recordEvent(context);
  const isOwner = ownershipCheck(context);

  return {
    /** What the owner of a run found or did. */
    addEvent(claim: Claim, event: RunEvent): Promise<void> {
      return write(() => {
        if (!isOwner({ ...claim, now: now() })) throw lostLease(claim);
        record({ ...claim, ...event });
      });
    },

    /** What was done with a run's files by somebody else than its owner. */
    addUnownedEvent(runId: string, event: RunEvent): Promise<void> {
      return write(() => record({ runId, ...event }));
    },
  };
}
