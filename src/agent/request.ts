import { ModelError, messageOf } from "../errors.ts";
import { failpoint } from "../failpoint.ts";
import type { Refusal } from "../limits/budget.ts";
import type { Pass } from "../limits/gate.ts";
import { delayBefore, type RetryPolicy, retryDefaults } from "../limits/retry.ts";
import { type ModelReply, type ModelRequest, unbilled } from "../model/model.ts";
import { sleep } from "../sleep.ts";
import { admit } from "./admission.ts";
import { budgetWish } from "./budget.ts";
import type { Agent } from "./loop.ts";

/** A wait looks this often whether the worker wants to stop. */
const stopLookMs = 250;

/** How often a request that waits for others' money tries again; each time it may use up some of what the gate gives. */
const budgetLookMs = 1_000;

/** So long a request waits for what others may give back to a budget; then its run does, without a worker. */
const maxBudgetWaitMs = 600_000;

const failpoints = {
  step: { planned: "plan.committed", answered: "model.answered" },
  summary: { planned: "summary.planned", answered: "summary.answered" },
} as const;

/** A reply and the number of the request that brought it, whose row is still open: who uses the reply settles it. */
export interface Answered {
  n: number;
  reply: ModelReply;
}

/** No request was sent: a budget does not suffice for it. */
export interface Refused {
  refusal: Refusal;
  /** Which was to be asked. */
  model: string;
}

/**
 * Asks the model, again while that may help. Each request has a row of its own in the database, which is there before it
 * is sent; one that fails is settled here. Null: broken off, because the run was paused or cancelled or the worker stops;
 * the loop says what that means. Throws ModelError where asking again is of no use,
 * ModelWait where nobody may be asked for long, and LeaseLostError.
 */
export async function requestModel(
  agent: Agent,
  purpose: "step" | "summary",
  request: ModelRequest,
): Promise<Answered | Refused | null> {
  let tries = { attempt: 1, startedAt: performance.now() };
  let budgetSince: number | null = null;
  for (;;) {
    const pass = await admit(agent, request, tries.startedAt);
    if (pass === null) return null;
    const planned = await plan(agent, { purpose, pass, request: { ...request, model: pass.model } });
    if (planned === null) return null;
    if (typeof planned !== "number") {
      // No run ends or waits because of a model that is only to take its own one's place.
      if (pass.model !== request.model) {
        agent.gate?.refusedBy.add(pass.model);
        continue;
      }
      const { isPassing, scope, batch } = planned.refusal;
      if (budgetSince === null && isPassing) agent.logger.info("budget.waiting", { scope, batch });
      budgetSince ??= performance.now();
      if (!isPassing || performance.now() - budgetSince > maxBudgetWaitMs) return planned;
      await sleep(budgetLookMs, agent.signal).catch(() => {});
      if (agent.signal.aborted || agent.isStopping()) return null;
      tries = { ...tries, startedAt: performance.now() };
      continue;
    }
    const n = planned;
    if (agent.signal.aborted) {
      agent.log.failModelCall(n, "not sent: the run was broken off", unbilled);
      pass.left();
      return null;
    }
    try {
      const reply = await agent.model.ask({ ...request, model: pass.model }, agent.signal);
      failpoint(failpoints[purpose].answered);
      pass.served();
      return { n, reply };
    } catch (error) {
      const isFree = error instanceof ModelError && !error.mayBeBilled;
      agent.log.failModelCall(n, messageOf(error), isFree ? unbilled : undefined);
      if (agent.signal.aborted) {
        pass.left();
        return null;
      }
      // What the provider's limits refused costs no attempt: the gate says when the next request may go.
      if (!(await pass.refused(error))) tries = await tryAgain(agent, { error, pass, ...tries });
      if (agent.signal.aborted || agent.isStopping()) return null;
    }
  }
}

interface Planning {
  purpose: "step" | "summary";
  pass: Pass;
  request: ModelRequest;
}

/** The number of the request, which may be sent now; else the pass is given back. Null where the run is not wanted any more. */
async function plan(agent: Agent, { purpose, pass, request }: Planning): Promise<number | Refused | null> {
  const { log } = agent;
  try {
    const n = log.plan(purpose, request.model, budgetWish(agent, purpose, request));
    await log.committed();
    const refusal = log.refusal();
    const why = whyUnwanted(agent);
    if (refusal !== null) {
      pass.left();
      return why === null ? { refusal, model: pass.model } : null;
    }
    failpoint(failpoints[purpose].planned);
    await log.confirmOwned();
    if (why === null) return n;
    pass.left();
    log.failModelCall(n, `not sent: the run was ${why}`, unbilled);
    return null;
  } catch (error) {
    pass.left();
    throw error;
  }
}

function whyUnwanted({ log }: Agent): "paused" | "cancelled" | null {
  const { cancelAt, pauseAt } = log.asked();
  return cancelAt !== null ? "cancelled" : pauseAt !== null ? "paused" : null;
}

interface Tries {
  attempt: number;
  startedAt: number;
}

/** Waits as long as the failure asks for, or turns to another model; throws it where both are of no use. */
async function tryAgain(
  agent: Agent,
  { error, pass, attempt, startedAt }: Tries & { error: unknown; pass: Pass },
): Promise<Tries> {
  if (!(error instanceof ModelError)) throw error;
  if (await waitBeforeRetry(agent, { error, attempt, startedAt })) return { attempt: attempt + 1, startedAt };
  const { fallbackModels = [] } = agent.gate ?? {};
  const hasOther = fallbackModels.length > 0 && pass.model !== fallbackModels.at(-1);
  // What this run asks is no fault of the model's for others; tools can be done without, see `withoutTools`.
  if (error.kind === "invalid" && hasOther && error.unsupported !== "tools")
    agent.gate?.refusedBy.add(pass.model);
  else if (error.kind === "retry" && hasOther) await pass.failed(error);
  else throw error;
  return { attempt: 1, startedAt: performance.now() };
}

/** False where asking the same again is of no use. */
async function waitBeforeRetry(
  agent: Agent,
  { error, attempt, startedAt }: Tries & { error: ModelError },
): Promise<boolean> {
  const policy: RetryPolicy = { ...retryDefaults, ...agent.retry };
  const delayMs = delayBefore(error, attempt, policy);
  const isTooLate = (delayMs ?? 0) + performance.now() - startedAt > policy.maxRetryMs;
  if (delayMs === undefined || isTooLate) return false;
  const { attempts } = policy;
  agent.logger.info("model.retried", { attempt, attempts, delayMs, error: error.message });
  await agent.log.committed();
  const until = performance.now() + delayMs;
  while (performance.now() < until && !agent.isStopping() && !agent.signal.aborted) {
    await sleep(Math.min(stopLookMs, until - performance.now()), agent.signal).catch(() => {});
    await agent.log.lookAsked();
    if (whyUnwanted(agent) !== null) break;
  }
  return true;
}
