import { describe } from "vitest";
import { describeClaim } from "./suite/claim.ts";
import { describeEnqueue } from "./suite/enqueue.ts";
import { describeFence } from "./suite/fence.ts";
import { describeForks } from "./suite/forks.ts";
import { describeReads } from "./suite/reads.ts";
import type { StoreFactory } from "./suite/scene.ts";
import { describeSteer } from "./suite/steer.ts";
import { describeSteps } from "./suite/steps.ts";
import { describeWorkers } from "./suite/workers.ts";

/** What every store must do, whatever database is under it. */
export function describeStore(name: string, open: StoreFactory): void {
  describe(name, () => {
    describeEnqueue(open);
    describeClaim(open);
    describeFence(open);
    describeSteps(open);
    describeSteer(open);
    describeWorkers(open);
    describeForks(open);
    describeReads(open);
  });
}
