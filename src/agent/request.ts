import { ModelError, messageOf } from "../errors.ts";
import { failpoint } from "../failpoint.ts";
import { delayBefore, type RetryPolicy, retryDefaults } from "../limits/retry.ts";
import type { ModelReply, ModelRequest } from "../model/model.ts";
import { sleep } from "../sleep.ts";
import type { Agent } from "./loop.ts";

/** A wait looks this often whether the worker wants to stop. */
const stopLookMs = 250;

const failpoints = {
  step: { planned: "plan.committed", answered: "model.answered" },
  summary: { planned: "summary.planned", answered: "summary.answered" },
} as const;

/** A reply and the number of the request that brought it, whose row is still open: who uses the reply settles it. */
export interface Answered {
  n: number;
  reply: ModelReply;
}

/**
 * Asks the model, again while that may help. Each request has a row of its own in the database, which is there before it
 * is sent; one that fails is settled here. Null: broken off, because the run was paused or cancelled or the worker stops;
 * the loop says what that means. Throws ModelError where asking again is of no use, and LeaseLostError.
 */
export async function requestModel(
  agent: Agent,
  purpose: "step" | "summary",
  request: ModelRequest,
): Promise<Answered | null> {
  const startedAt = performance.now();
  for (let attempt = 1; ; attempt += 1) {
    const n = await plan(agent, purpose);
    if (n === null) return null;
    try {
      const reply = await agent.model.ask(request, agent.signal);
      failpoint(failpoints[purpose].answered);
      return { n, reply };
    } catch (error) {
      agent.log.failModelCall(n, messageOf(error));
      if (agent.signal.aborted) return null;
      await waitBeforeRetry(agent, { error, attempt, startedAt });
      if (agent.signal.aborted || agent.isStopping()) return null;
    }
  }
}

/** Null where the run is not wanted any more: nothing is sent. */
async function plan(agent: Agent, purpose: "step" | "summary"): Promise<number | null> {
  const { log } = agent;
  const n = log.plan(purpose, agent.modelName);
  await log.committed();
  failpoint(failpoints[purpose].planned);
  await log.confirmOwned();
  const { cancelAt, pauseAt } = log.asked();
  if (cancelAt === null && pauseAt === null) return n;
  log.failModelCall(n, `not sent: the run was ${cancelAt === null ? "paused" : "cancelled"}`);
  return null;
}

/** Waits as long as the failure asks for; throws it where asking again is of no use. */
async function waitBeforeRetry(
  agent: Agent,
  { error, attempt, startedAt }: { error: unknown; attempt: number; startedAt: number },
): Promise<void> {
  if (!(error instanceof ModelError)) throw error;
  const policy: RetryPolicy = { ...retryDefaults, ...agent.retry };
  const delayMs = delayBefore(error, attempt, policy);
  const isTooLate = (delayMs ?? 0) + performance.now() - startedAt > policy.maxRetryMs;
  if (delayMs === undefined || isTooLate) throw error;
  const { attempts } = policy;
  agent.logger.info("model.retried", { attempt, attempts, delayMs, error: error.message });
  await agent.log.committed();
  const until = performance.now() + delayMs;
  while (performance.now() < until && !agent.isStopping() && !agent.signal.aborted) {
    await sleep(Math.min(stopLookMs, until - performance.now()), agent.signal).catch(() => {});
  }
}
