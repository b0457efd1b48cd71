import { ModelWait } from "../errors.ts";
import type { Gate, Pass } from "../limits/gate.ts";
import { type Closed, isClosed } from "../limits/gate-state.ts";
import { retryDefaults } from "../limits/retry.ts";
import type { ModelRequest } from "../model/model.ts";
import { estimateMessageTokens } from "../model/tokens.ts";
import { sleep } from "../sleep.ts";
import type { Agent } from "./loop.ts";

/** Longer waits are not waited for here: the run asks another model, or gives its place away. */
const mostWaitMs = 60_000;
/** A wait looks this often whether the run is still wanted, and whether somebody opened the gate. */
const lookMs = 250;
/** Shorter waits are no news to people. */
const leastNewsMs = 1_000;

/** What stands between one run and the models it may ask. */
export interface RunGate {
  /** Null before a program's own model. */
  gate: Gate | null;
  workerId: string;
  /** Asked where the run's own model may not be asked for long; the first that may. */
  fallbackModels: string[];
  /** Those that refused what this run asks, or are beyond its budget: they are not asked again. */
  refusedBy: Set<string>;
  /** The model asked last, as far as people were told. */
  askedModel: string;
  /** When requests may be sent again: now, or the begin of the allowed hours. Epoch milliseconds, as `now`. */
  opensAt(): number;
  now(): number;
}

/**
 * Waits until a request may be sent, to the run's model or to one in its place. Null: broken off, see `requestModel`. Throws
 * ModelWait where the run had better wait outside of the worker.
 */
export async function admit(agent: Agent, request: ModelRequest, startedAt: number): Promise<Pass | null> {
  const { gate: runGate } = agent;
  if (!runGate) return freePass(request.model);
  const { maxRetryMs } = { ...retryDefaults, ...agent.retry };
  const tokens = () =>
    request.messages.reduce((sum, each) => sum + estimateMessageTokens(each), request.maxOutputTokens ?? 0);
  let saidUntil = 0;
  for (;;) {
    const answer = await firstOpen(runGate, request.model, ({ model, isLast }) =>
      runGate.gate
        ? runGate.gate.enter({ model, isLast, workerId: runGate.workerId, tokens })
        : Promise.resolve(freePass(model)),
    );
    if (!isClosed(answer)) return announce(agent, runGate, answer);
    const waitMs = waitOf(answer, runGate.now());
    if (waitMs > mostWaitMs || performance.now() + waitMs - startedAt > maxRetryMs) throw modelWaitOf(answer);
    const until = answer.until ?? 0;
    if (waitMs >= leastNewsMs && until > saidUntil) {
      saidUntil = until;
      const { reason, note } = answer;
      const isNews = runGate.gate?.isNews(until) ?? true;
      agent.logger.info("model.waiting", { until: new Date(until).toISOString(), reason, note, isNews });
    }
    await sleep(Math.min(waitMs, lookMs), agent.signal).catch(() => {});
    if (!(await isWanted(agent))) return null;
  }
}

/** What a run waits for that could not ask any model for long; undefined where it can. Nothing is changed. */
export async function waitBefore(runGate: RunGate, model: string): Promise<ModelWait | undefined> {
  const { gate } = runGate;
  const answer = await firstOpen(runGate, model, async ({ model: name, isLast }) =>
    gate ? gate.look({ model: name, isLast }) : null,
  );
  if (answer === null || waitOf(answer, runGate.now()) <= mostWaitMs) return undefined;
  return modelWaitOf(answer);
}

/** Whether the worker and people still want the run to go on here. */
async function isWanted({ log, signal, isStopping }: Agent): Promise<boolean> {
  if (signal.aborted || isStopping()) return false;
  await log.lookAsked();
  const { cancelAt, pauseAt } = log.asked();
  return cancelAt === null && pauseAt === null;
}

interface Candidate {
  model: string;
  /** No other is left: it is asked though its retries failed for somebody. */
  isLast: boolean;
}

/** Tries the models in turn: the first that is open, else the first that soon will be, else the one that opens soonest. */
async function firstOpen<Open>(
  runGate: RunGate,
  own: string,
  attempt: (candidate: Candidate) => Promise<Open | Closed>,
): Promise<Open | Closed> {
  const now = runGate.now();
  const opensAt = runGate.opensAt();
  if (opensAt > now) return { reason: "hours", note: "outside of the allowed hours", until: opensAt };
  const others = runGate.fallbackModels.filter((model) => !runGate.refusedBy.has(model));
  const models = runGate.refusedBy.has(own) && others.length > 0 ? others : [own, ...others];
  let soonest: Closed | undefined;
  for (const [index, model] of models.entries()) {
    const answer = await attempt({ model, isLast: index === models.length - 1 });
    // The others have the same key. One of them may be closed to it, which does not close the run's own.
    if (!isClosed(answer) || (answer.reason === "auth" && model === own) || waitOf(answer, now) <= mostWaitMs)
      return answer;
    if (soonest === undefined || waitOf(answer, now) < waitOf(soonest, now)) soonest = answer;
  }
  if (!soonest) throw new Error("a run has at least its own model");
  return soonest;
}

function waitOf({ until }: Closed, now: number): number {
  return until === null ? Number.POSITIVE_INFINITY : Math.max(1, until - now);
}

function modelWaitOf({ reason, note, until }: Closed): ModelWait {
  const kind = reason === "auth" ? "auth" : reason === "hours" ? "timer" : "quota";
  return new ModelWait(kind, note ?? "the limits of the provider are used up", until);
}

/** Says once which model answers in the place of the run's own, and when that does again. */
function announce(agent: Agent, runGate: RunGate, pass: Pass): Pass {
  if (pass.model !== runGate.askedModel) {
    agent.logger.info("model.changed", { model: pass.model, before: runGate.askedModel });
    runGate.askedModel = pass.model;
  }
  return pass;
}

function freePass(model: string): Pass {
  const nothing = () => {};
  return { model, served: nothing, left: nothing, refused: async () => false, failed: async () => {} };
}
