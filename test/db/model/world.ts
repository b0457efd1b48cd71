import { copyFileSync } from "node:fs";
import path from "node:path";
import Database from "better-sqlite3";
import { expect } from "vitest";
import type { Claim } from "../../../src/db/claim.ts";
import type { runs } from "../../../src/db/schema.ts";
import { openStore, type Store } from "../../../src/db/store.ts";
import type { Status, WaitKind } from "../../../src/outcome.ts";

/** What the model knows of a run: as much as is needed to say what each verb must do to it. */
export interface ModelRun {
  id: string;
  lane: string | null;
  status: Status;
  epoch: number;
  ownerId: string | null;
  seq: number;
  steps: number;
  isSuperseded: boolean;
  /** The run that this one is a retry of. */
  replaces: ModelRun | null;
  hasBegun: boolean;
  isCancelAsked: boolean;
  isPauseAsked: boolean;
  waitKind: WaitKind | null;
  wakeAt: number | null;
  /** Owners lost since the last reply, and whether there was one since the claim. */
  deaths: number;
  hasReplied: boolean;
  /** Requests so far; the number of the one that is open. */
  requests: number;
  openRequest: number | null;
  /** What was set aside for it, and what the ended ones cost. */
  openMicro: number;
  costMicro: number;
  openCalls: { step: number; ordinal: number }[];
}

/** All runs are of this one, which has a budget. */
export const batch = "x";
const firstCap = 8;

/** The store under test, what it must hold, and a connection that sees what is on disk. */
export interface World {
  store: Store;
  disk: Database.Database;
  now: number;
  runs: Map<string, ModelRun>;
  workers: Map<string, { leaseUntil: number; isStopped: boolean }>;
  /** All that were ever given, oldest first. */
  claims: Claim[];
  /** What all runs share, in micro-dollars. */
  budget: { cap: number; used: number; isExhausted: boolean };
  /** Rows of runs that have ended, as they were at first. */
  ended: Map<string, string>;
  /** How often what happened, so that a test can say that it tried something. */
  seen: Record<"refused" | "unaffordable" | "done" | "claimed" | "ended" | "crash_loop" | "lost", number>;
}

/** A world whose database is a copy of `template`, an empty one that is closed: migrating each would cost more than the verbs. */
export async function createWorld(folder: string, template: string): Promise<World> {
  const file = path.join(folder, "pawl.db");
  copyFileSync(template, file);
  const now = 1_700_000_000_000;
  const store = await openStore({ file, now: () => world.now });
  const world: World = {
    store,
    disk: new Database(file),
    now,
    runs: new Map(),
    workers: new Map(),
    claims: [],
    budget: { cap: firstCap, used: 0, isExhausted: false },
    ended: new Map(),
    seen: { refused: 0, unaffordable: 0, done: 0, claimed: 0, ended: 0, crash_loop: 0, lost: 0 },
  };
  await store.setBatchBudget(batch, { micro: firstCap });
  return world;
}

export async function closeWorld({ store, disk }: World): Promise<void> {
  disk.close();
  await store.close();
}

export function addRun(
  world: World,
  { id, lane, replaces = null }: { id: string; lane: string | null; replaces?: ModelRun | null },
): void {
  world.runs.set(id, {
    replaces,
    ...{ id, lane, status: "queued", epoch: 0, ownerId: null, seq: 0, steps: 0, isSuperseded: false },
    ...{ hasBegun: false, isCancelAsked: false, isPauseAsked: false, waitKind: null, wakeAt: null },
    ...{ deaths: 0, hasReplied: false, requests: 0, openRequest: null, openCalls: [] },
    ...{ openMicro: 0, costMicro: 0 },
  });
}

export function isTerminal({ status }: Pick<ModelRun, "status">): boolean {
  return status === "succeeded" || status === "failed" || status === "cancelled";
}

/** Whether a worker may write: its lease, as the clock is now. */
export function holdsLease(world: World, workerId: string | null): boolean {
  return (world.workers.get(workerId ?? "")?.leaseUntil ?? 0) > world.now;
}

/** Whether the claim is the one that may write for its run. */
export function isOwned(world: World, claim: Claim): boolean {
  const run = world.runs.get(claim.runId);
  return run?.status === "running" && run.epoch === claim.epoch && holdsLease(world, run.ownerId);
}

type Row = Record<string, unknown> & Pick<typeof runs.$inferSelect, "id" | "status" | "lane" | "ready">;

export function rowsOf({ disk }: World): Row[] {
  return disk.prepare("SELECT * FROM runs ORDER BY id").all() as Row[];
}

const tables = ["budgets", "runs", "messages", "calls", "model_calls", "events", "workers", "batches"];

/** Everything on disk, to see that nothing changed. */
export function everything({ disk }: World): string {
  return JSON.stringify(tables.map((table) => disk.prepare(`SELECT * FROM ${table}`).all()));
}

/** What must hold after every verb. */
export async function expectAgreement(world: World): Promise<void> {
  const rows = rowsOf(world);
  expectSame(rows.map(asModel), [...world.runs.values()].toSorted(byId).map(asRow));
  expectFinalEnds(world, rows);
  expectSame(budgetOf(world), world.budget);
  expectLanes(rows);
  const counted = await world.store.countRuns();
  const current = [...world.runs.values()].filter((run) => !run.isSuperseded);
  for (const { status } of current) {
    const sum = counted.counts.reduce((total, row) => total + (row.status === status ? row.count : 0), 0);
    expect(sum, `runs counted as ${status}`).toBe(current.filter((run) => run.status === status).length);
  }
}

/** Compares as text first: after every verb, the comparison of vitest would cost more than all of the verbs. */
function expectSame(actual: unknown, expected: unknown): void {
  if (JSON.stringify(actual) !== JSON.stringify(expected)) expect(actual).toEqual(expected);
}

const byId = (a: ModelRun, b: ModelRun) => (a.id < b.id ? -1 : 1);

function budgetOf({ disk }: World): World["budget"] {
  const row = disk.prepare("SELECT * FROM budgets").get() as Record<string, number | null>;
  return { cap: row.cap_micro ?? 0, used: row.used_micro ?? 0, isExhausted: row.exhausted_at !== null };
}

function asRow({ id, status, epoch, ownerId, seq, steps, waitKind, isSuperseded, costMicro }: ModelRun) {
  return { id, status, epoch, ownerId, seq, steps, waitKind, superseded: isSuperseded ? 1 : 0, costMicro };
}

function asModel({ id, status, epoch, owner_id, seq, steps, wait_kind, superseded, cost_micro }: Row) {
  const names = { ownerId: owner_id, seq, steps, waitKind: wait_kind, superseded, costMicro: cost_micro };
  return { id, status, epoch, ...names };
}

/** One outcome, recorded once, never changed. */
function expectFinalEnds(world: World, rows: Row[]): void {
  const finished = world.disk
    .prepare(
      "SELECT run_id, count(*) AS n FROM events WHERE kind = 'finished' GROUP BY run_id ORDER BY run_id",
    )
    .all() as { run_id: string; n: number }[];
  const ended = rows.filter(isTerminal).map(({ id }) => id);
  expectSame(
    finished,
    ended.map((id) => ({ run_id: id, n: 1 })),
  );
  for (const { superseded, ...row } of rows) {
    const before = world.ended.get(row.id);
    if (before !== undefined) expectSame(row, JSON.parse(before));
    else if (isTerminal(row)) world.ended.set(row.id, JSON.stringify(row));
  }
}

/** A lane has one holder at the most, and one if somebody stands in line; whoever has no lane stands in no line. */
function expectLanes(rows: Row[]): void {
  const open = rows.filter((row) => !isTerminal(row));
  for (const lane of new Set(open.map((row) => row.lane))) {
    const ofLane = open.filter((row) => row.lane === lane);
    const holders = ofLane.filter((row) => row.ready === 1);
    const inLine = ofLane.filter((row) => row.status === "queued" && row.ready === 0);
    if (lane === null) {
      expect(inLine).toEqual([]);
      continue;
    }
    expect(holders.length, `holders of ${lane}`).toBeLessThanOrEqual(1);
    if (inLine.length > 0) expect(holders.length, `a queue without a head in ${lane}`).toBe(1);
    const running = ofLane.filter((row) => row.status === "running");
    expect(running.length, `runs that work in ${lane}`).toBeLessThanOrEqual(1);
  }
}
