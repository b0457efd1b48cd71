import fc from "fast-check";
import { expect } from "vitest";
import { strikesUntilSuspect } from "../../../src/db/claim.ts";
import type { RemovalReason } from "../../../src/db/workers.ts";
import { ConfigError } from "../../../src/errors.ts";
import { identity, newTask } from "../suite/scene.ts";
import { cancelUnowned, fencedVerbs, tryFenced } from "./fenced.ts";
import {
  addRun,
  batch,
  holdsLease,
  isOwned,
  isTerminal,
  type ModelRun,
  rowsOf,
  type World,
} from "./world.ts";

/** One thing that somebody does: `at` chooses among the workers, runs or claims that there are. */
export interface Command {
  does: string;
  at: number;
}

const leaseMs = 10_000;
const hourMs = 3_600_000;
const maxRaise = 6;
const lanes = [null, "/a", "/a"];
const clockMoves = [1, 500, 500, leaseMs / 4, leaseMs / 4, leaseMs / 2, leaseMs, hourMs, -hourMs];
const removals: RemovalReason[] = ["dead", "dead", "lease_expired", "stopped"];

/** By weight: owners do most of it. */
const weights: Record<string, number> = {
  ...{ enqueue: 4, addWorker: 4, claim: 12, renewLease: 5, removeWorker: 2, moveClock: 3, wakeDue: 2 },
  ...{ raise: 1, die: 5, cancel: 1, pause: 2, resume: 3, retry: 1 },
  ...{ begin: 3, plan: 9, reply: 8, start: 4, result: 8, confirmOwned: 1, wait: 1, release: 1, finish: 2 },
};

export const anyCommand: fc.Arbitrary<Command> = fc.record({
  does: fc.oneof(
    ...Object.entries(weights).map(([name, weight]) => ({ weight, arbitrary: fc.constant(name) })),
  ),
  at: fc.nat(9_999),
});

/** Does it to the store and to the model, and checks the answer. */
export async function obey(world: World, { does, at }: Command): Promise<void> {
  if (does in fencedVerbs) {
    const current = world.claims.filter((claim) => isOwned(world, claim));
    // A third of the time by somebody who may be stale.
    const claim = choose(at % 3 === 0 || current.length === 0 ? world.claims : current, at);
    if (claim) await tryFenced(world, does, claim, at);
    return;
  }
  const run = choose([...world.runs.values()], at);
  const alive = [...world.workers.keys()].filter((id) => holdsLease(world, id));
  const workerId = choose(at % 4 === 0 || alive.length === 0 ? [...world.workers.keys()] : alive, at);
  if (does === "enqueue") return enqueue(world, at);
  if (does === "addWorker") return addWorker(world);
  if (does === "die") return die(world);
  if (does === "raise") return raise(world, world.budget.cap + (at % maxRaise));
  if (does === "moveClock") world.now += choose(clockMoves, at) ?? 0;
  else if (does === "wakeDue") return wakeDue(world);
  else if (workerId && does === "claim") await claim(world, workerId, at);
  else if (workerId && does === "renewLease") return renewLease(world, workerId);
  else if (workerId && does === "removeWorker")
    return removeWorker(world, workerId, choose(removals, at >> 4));
  else if (run && does === "retry") return retry(world, run);
  else if (run && (does === "cancel" || does === "pause" || does === "resume"))
    return steer(world, run, does);
}

function choose<Item>(items: Item[], at: number): Item | undefined {
  return items[at % items.length];
}

async function enqueue(world: World, at: number): Promise<void> {
  const dir = choose(lanes, at) ?? null;
  const [added] = await world.store.enqueue([newTask({ batch, priority: (at >> 4) % 2 }, { dir })]);
  addRun(world, { id: added?.id ?? "", lane: dir === null ? null : `dir:${dir}` });
}

async function addWorker(world: World): Promise<void> {
  const id = await world.store.registerWorker(identity, { version: "1", leaseMs });
  world.workers.set(id, { leaseUntil: world.now + leaseMs, isStopped: false });
}

/** A budget of the same size is no change. */
export async function raise({ store, budget }: World, cap: number): Promise<void> {
  await store.setBatchBudget(batch, { micro: cap });
  if (cap !== budget.cap) Object.assign(budget, { cap, isExhausted: false });
}

/** A worker enters, takes a run and is killed at once. */
async function die(world: World): Promise<void> {
  await addWorker(world);
  const id = [...world.workers.keys()].at(-1) ?? "";
  await claim(world, id, 0);
  await removeWorker(world, id);
}

/** As the thread of the lease does it, over a connection of its own. */
function renewLease(world: World, id: string): void {
  const worker = world.workers.get(id);
  const holds = holdsLease(world, id);
  const { changes } = world.disk
    .prepare("UPDATE workers SET lease_until = ? WHERE id = ? AND stopped_at IS NULL AND lease_until > ?")
    .run(world.now + leaseMs, id, world.now);
  expect(changes === 1).toBe(holds);
  if (holds && worker) worker.leaseUntil = world.now + leaseMs;
}

export async function claim(world: World, workerId: string, at: number): Promise<boolean> {
  const isAlone = at % 2 === 0;
  const isHeld = (row: Record<string, unknown>) =>
    world.budget.isExhausted && row.epoch === 0 && row.cancel_at === null;
  const waiting = rowsOf(world).filter((row) => row.status === "queued" && row.ready === 1 && !isHeld(row));
  const isSuspect = (row: (typeof waiting)[number]) => Number(row.strikes) >= strikesUntilSuspect;
  const trusted = waiting.filter((row) => !isSuspect(row));
  const allowed = trusted.length > 0 || !isAlone ? trusted : waiting;
  const row = await world.store.claim(workerId, { isAlone });
  if (!holdsLease(world, workerId) || allowed.length === 0) {
    expect(row).toBeUndefined();
    return false;
  }
  const urgent = Math.max(...allowed.map(({ priority }) => Number(priority)));
  const first = allowed.filter(({ priority }) => priority === urgent).map(({ id }) => id);
  expect(row?.id, "the oldest of the most urgent").toBe(first.toSorted()[0]);
  const run = world.runs.get(row?.id ?? "");
  if (!run) throw new Error("expected a run that was enqueued");
  run.status = "running";
  run.epoch += 1;
  run.ownerId = workerId;
  run.hasReplied = false;
  if (run.openRequest !== null) run.costMicro += run.openMicro;
  run.openRequest = null;
  expect(row?.epoch).toBe(run.epoch);
  world.claims.push({ runId: run.id, workerId, epoch: run.epoch });
  world.seen.claimed += 1;
  return true;
}

export async function removeWorker(world: World, id: string, why: RemovalReason = "dead"): Promise<void> {
  const worker = world.workers.get(id);
  if (!worker) return;
  const isRemoved = !worker.isStopped && (why !== "lease_expired" || !holdsLease(world, id));
  const owned = [...world.runs.values()].filter((run) => run.status === "running" && run.ownerId === id);
  const count = await world.store.removeWorker(id, why);
  expect(count).toBe(isRemoved ? owned.length : 0);
  if (!isRemoved) return;
  world.workers.set(id, { leaseUntil: 0, isStopped: true });
  const reasons = new Map(rowsOf(world).map((row) => [row.id, row.reason]));
  for (const run of owned) loseOwner(world, run, { why, reason: reasons.get(run.id) });
}

/** Whether a death ends the run as a crash loop is the store's to say, but not before the third without a reply. */
function loseOwner(world: World, run: ModelRun, facts: { why: RemovalReason; reason: unknown }): void {
  world.seen.lost += 1;
  run.deaths = run.hasReplied ? 0 : run.deaths + (facts.why === "stopped" ? 0 : 1);
  run.ownerId = null;
  if (facts.reason === "crash_loop") {
    expect(run.deaths).toBeGreaterThanOrEqual(strikesUntilSuspect + 1);
    world.seen.crash_loop += 1;
    run.status = "failed";
    return;
  }
  run.status = run.isPauseAsked ? "waiting" : "queued";
  run.waitKind = run.isPauseAsked ? "paused" : null;
  run.isPauseAsked = false;
  if (run.isCancelAsked) cancelUnowned(run);
}

async function wakeDue(world: World): Promise<void> {
  const due = [...world.runs.values()].filter(
    (run) => run.status === "waiting" && run.wakeAt !== null && run.wakeAt <= world.now,
  );
  expect(await world.store.wakeDue()).toBe(due.length);
  for (const run of due) wake(run);
}

function wake(run: ModelRun): void {
  Object.assign(run, { status: "queued", waitKind: null, wakeAt: null });
}

async function retry(world: World, run: ModelRun): Promise<void> {
  const id = await world.store.retry(run.id).catch((error: unknown) => error);
  if (!isTerminal(run) || run.isSuperseded) return expect(id).toBeInstanceOf(ConfigError);
  run.isSuperseded = true;
  addRun(world, { id: String(id), lane: run.lane, replaces: run });
}

export async function steer(world: World, run: ModelRun, verb: "cancel" | "pause" | "resume"): Promise<void> {
  const changes = { cancel, pause, resume }[verb](run);
  const isTakenBack = verb === "cancel" && changes && run.status === "cancelled";
  const stands = isTakenBack && run.replaces ? { stands: run.replaces.id } : {};
  const { id, status } = run;
  expect(await world.store[verb](id)).toEqual({ id, status, changed: changes, ...stands });
}

function cancel(run: ModelRun): boolean {
  if (isTerminal(run) || run.isCancelAsked) return false;
  if (run.status === "running") run.isCancelAsked = true;
  else cancelUnowned(run);
  return true;
}

function pause(run: ModelRun): boolean {
  if (isTerminal(run) || run.isPauseAsked || run.waitKind === "paused") return false;
  // It is queued only to be ended.
  if (run.status === "queued" && run.isCancelAsked) return false;
  if (run.status === "running") run.isPauseAsked = true;
  else Object.assign(run, { status: "waiting", waitKind: "paused", wakeAt: null });
  return true;
}

function resume(run: ModelRun): boolean {
  const isAsked = run.status === "running" && run.isPauseAsked;
  if (!isAsked && run.status !== "waiting") return false;
  if (isAsked) run.isPauseAsked = false;
  else wake(run);
  return true;
}
