import { setTimeout as sleep } from "node:timers/promises";
import { RunAborted } from "../abort.ts";
import { type RunRow, strikesUntilSuspect } from "../db/claim.ts";
import { DatabaseError, LeaseLostError } from "../errors.ts";
import { failpoint } from "../failpoint.ts";
import { isTerminal } from "../outcome.ts";
import type { Queue } from "../queue/queue.ts";
import { watchDiskRoom } from "./disk-room.ts";
import { executeRun, type RunResources } from "./execute-run.ts";
import { ownIdentity } from "./identity.ts";
import { publishHints, reconcile, removeWorker, sweep } from "./reconcile.ts";
import { waitForRoom } from "./room.ts";

/** How often a worker looks for cancel and pause requests of its runs. */
const lookMs = 250;
/** How often it looks for dead owners, due wake-ups, and runs that no hint came for: within a second, with the look it waits for. */
const sweepMs = 750;
/** After a stop is asked for, steps may go on this long; then they are left where they are. */
const stopGraceMs = 8000;
/** What does not let go then is left behind after this; and so long a worker that stops waits for a full disk. */
const lastGraceMs = 1000;
/** A draining worker waits for quota and timers that wake within this. */
const drainHorizonMs = 10 * 60_000;

export interface WorkerOptions extends Omit<RunResources, "isStopping"> {
  queue: Queue;
  /** Runs at the same time. */
  concurrency: number;
  leaseMs: number;
  /** With less free on the disk of the data or the workspaces, nothing new is claimed; 0 turns it off. */
  minFreeBytes: number | null;
  version: string;
  /** Stop once there is nothing left to do. */
  drain?: boolean;
  /** Work on this run alone, and stop when it has ended or waits. */
  only?: string;
}

export interface Worker {
  /** Resolves when the worker has stopped; rejects if the database fails. */
  done: Promise<void>;
  /** Asks it to stop: current steps get eight seconds, then every run is given back. Call again to give back at once. */
  stop(): void;
}

interface Running {
  row: RunRow;
  wantsAlone: boolean;
  controller: AbortController;
  leaving: AbortController;
  done: Promise<void>;
}

/** Claims runs and takes them to their end, until it is stopped or has drained. */
export function startWorker(options: WorkerOptions): Worker {
  const context: Context = { options, running: new Map(), stop: new AbortController(), failure: undefined };
  return {
    done: workUntilStopped(context),
    stop() {
      if (context.stop.signal.aborted) leaveAll(context, "shutdown");
      context.stop.abort();
    },
  };
}

interface Context {
  options: WorkerOptions;
  running: Map<string, Running>;
  stop: AbortController;
  /** What made a run's own verbs fail; ends the worker. */
  failure: unknown;
}

/** What the database, or the thread of the lease, cannot do ends the worker. */
function fail(context: Context, error: unknown): void {
  context.failure ??= error;
  context.stop.abort();
}

function leaveAll({ running }: Context, kind: "shutdown" | "lease_lost"): void {
  for (const { controller, leaving } of running.values()) {
    for (const each of [controller, leaving]) each.abort(new RunAborted(kind));
  }
}

async function workUntilStopped(context: Context): Promise<void> {
  waitForRoom({ ...context.options, stop: context.stop.signal, graceMs: lastGraceMs });
  while (!context.stop.signal.aborted) await workForOneLease(context);
  context.options.logger.info("worker.stopped");
  if (context.failure !== undefined) throw context.failure;
}

/** From registration to stop, drain, or the loss of the lease; a worker that lost it starts anew under another id. */
async function workForOneLease(context: Context): Promise<void> {
  const { options, stop, running } = context;
  const { store, logger, leaseMs, version } = options;
  const workerId = await store.registerWorker(ownIdentity(), { version, leaseMs });
  failpoint("worker.registered");
  logger.info("worker.started", { worker: workerId, concurrency: options.concurrency });
  const lease = store.keepLease(workerId, leaseMs);
  // At once, whatever the claim loop waits for: nothing of these runs may be touched any more.
  lease.lost.addEventListener("abort", () => leaveAll(context, "lease_lost"));
  const over = new AbortController();
  const upkeep = lookAfter({ context, workerId, signal: AbortSignal.any([over.signal, lease.lost]) });
  const signal = AbortSignal.any([stop.signal, lease.lost]);
  await claimLoop({ context, workerId, signal }).catch((error: unknown) => fail(context, error));
  if (!lease.lost.aborted) stop.abort();
  else if (!(lease.lost.reason instanceof LeaseLostError)) fail(context, lease.lost.reason);
  else logger.info("worker.lease_lost", { worker: workerId });
  // Also what was claimed at the last moment.
  if (lease.lost.aborted) {
    leaveAll(context, "lease_lost");
    // Its next life is another row, which nobody has asked.
    await passStop(context, workerId);
  }
  const grace = setTimeout(() => leaveAll(context, "shutdown"), stopGraceMs);
  const settled = Promise.allSettled([...running.values()].map((run) => run.done));
  // What has not let go by then is left behind: its runs are given back below, and it cannot write for them any more.
  const enough = new AbortController();
  await Promise.race([settled, waitFor(stopGraceMs + lastGraceMs, enough.signal)]);
  // A timer that is left would keep the process for its time.
  enough.abort();
  clearTimeout(grace);
  over.abort();
  await upkeep;
  await lease.stop();
  await removeWorker(options, workerId, "stopped").catch((error: unknown) => fail(context, error));
}

interface Loop {
  context: Context;
  workerId: string;
  signal: AbortSignal;
}

/** Claims while there is room, then waits for a hint, a free place, or the next sweep. */
async function claimLoop({ context, workerId, signal }: Loop): Promise<void> {
  const { options, running } = context;
  const { store, queue } = options;
  const hasDiskRoom = watchDiskRoom({ ...options, workerId, signal });
  let freed = new AbortController();
  // Not AbortSignal.any, which leaks a little at each look.
  signal.addEventListener("abort", () => freed.abort());
  while (!signal.aborted) {
    while (hasRoom(context) && (await hasDiskRoom()) && !signal.aborted) {
      const row = await store.claim(workerId, { runId: options.only, isAlone: running.size === 0 });
      if (!row) break;
      failpoint("claim.committed");
      const step = await lastStep(options, row);
      options.logger.info("run.claimed", { run: row.id, epoch: row.epoch, step });
      const [controller, leaving] = [new AbortController(), new AbortController()];
      const resources = { ...options, isStopping: () => context.stop.signal.aborted };
      const done = executeRun(resources, row, { controller, leaving: leaving.signal })
        .catch((error: unknown) => fail(context, error))
        .finally(() => {
          // A released run may already be here again, under a newer epoch.
          if (running.get(row.id)?.controller === controller) running.delete(row.id);
          freed.abort();
        });
      const wantsAlone = row.strikes >= strikesUntilSuspect;
      running.set(row.id, { row, controller, leaving, done, wantsAlone });
    }
    if (running.size === 0 && (await isDone(options))) return;
    await (hasRoom(context) ? queue.wait(sweepMs, freed.signal) : waitFor(sweepMs, freed.signal));
    if (freed.signal.aborted) freed = new AbortController();
  }
}

/** As its log numbers them: a fork's go on from those that it copied. */
async function lastStep({ store }: WorkerOptions, { id, origin, steps }: RunRow): Promise<number> {
  const copiedSteps = origin === "fork" ? (await store.getRun(id))?.copiedSteps : 0;
  return steps + (copiedSteps ?? 0);
}

/** A run that is suspected of killing its workers gets one to itself. */
function hasRoom({ options, running }: Context): boolean {
  const isTaken = [...running.values()].some((run) => run.wantsAlone);
  return !isTaken && running.size < options.concurrency;
}

async function isDone(options: WorkerOptions): Promise<boolean> {
  const { store, only } = options;
  if (only !== undefined) {
    const run = await store.getRun(only);
    return run === undefined || isTerminal(run.status) || run.status === "waiting";
  }
  return options.drain === true && !(await store.hasWork(store.now() + drainHorizonMs));
}

/** The upkeep beside the claim loop: passes on requests, and finds what others left behind. */
async function lookAfter({ context, workerId, signal }: Loop): Promise<void> {
  const { store, logger } = context.options;
  const parts = { ...context.options, self: ownIdentity(), ownId: workerId, signal };
  // Beside the upkeep: a silent Redis must not hold it up.
  let beside = Promise.resolve();
  let sweptAt = 0;
  while (!signal.aborted) {
    try {
      const now = store.now();
      await passRequests(context, workerId);
      await trustAgain(context);
      await passStop(context, workerId);
      if (now - sweptAt >= sweepMs) {
        sweptAt = now;
        store.requireInPlace();
        if ((await sweep(parts)) > 0) beside = beside.then(() => publishHints(parts));
        beside = beside.then(() => reconcile(parts));
      }
    } catch (error) {
      if (error instanceof DatabaseError) {
        fail(context, error);
        break;
      }
      logger.info("worker.upkeep_failed", { error: String(error) });
    }
    await waitFor(lookMs, signal);
  }
  await Promise.race([beside, sleep(lastGraceMs, undefined, { ref: false })]);
}

async function passRequests({ options, running }: Context, workerId: string): Promise<void> {
  if (running.size === 0) return;
  for (const asked of await options.store.loadAsked(workerId)) {
    if (asked.cancelAt !== null) running.get(asked.id)?.controller.abort(new RunAborted("cancel"));
  }
}

/** A suspect that has made a step shares its worker with others again. */
async function trustAgain({ options, running }: Context): Promise<void> {
  for (const run of running.values()) {
    if (run.wantsAlone) run.wantsAlone = !(await options.store.hasProgress(run.row));
  }
}

/** A stop that no signal brought: by `pawl stop`, or because a newer pawl has migrated the file. */
async function passStop({ options, stop }: Context, workerId: string): Promise<void> {
  const why = await options.store.getStopReason(workerId);
  if (why === null || stop.signal.aborted) return;
  options.logger.info("worker.stopping", { worker: workerId, why });
  stop.abort();
}

async function waitFor(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => {});
}
