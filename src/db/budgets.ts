import { sql } from "drizzle-orm";
import { ConfigError } from "../errors.ts";
import {
  type Amount,
  type Budget,
  type BudgetWish,
  type Caps,
  type Charge,
  dayOf,
  endOfDay,
  hasCap,
  nothingReserved,
  type Refusal,
  type Reserved,
  refuse,
} from "../limits/budget.ts";
import { type budgets, modelCalls, runs } from "./schema.ts";
import type { StoreContext } from "./store.ts";

/** Who had no room because of others' requests, and was not given any in its wait, looks again after this. */
const lookAgainMs = 60_000;

type BudgetRow = typeof budgets.$inferSelect;

/** A budget of a batch or a day, as people see it. */
export type BudgetView = BudgetRow & { batch: string | null };

/** What the plan of a request knows of its run. */
export interface Spender {
  runId: string;
  /** When the request is planned. */
  at: number;
  batchId: string;
  costMicro: number;
  usedTokens: number;
  hasBatchBudget: number;
  hasDayBudget: number;
}

/** A request that was open, if it was, and what it is charged. */
interface Ended {
  runId: string;
  call: { startedAt: number; hasBudget: number } | undefined;
  charge: Charge | undefined;
}

/** Whether a run's batch has a budget: part of a statement that is made anyway. */
export const hasBatchBudget = sql<number>`EXISTS (SELECT 1 FROM budgets WHERE scope = 'batch:' || ${runs.batchId})`;

/** Whether there is one of the day at `now`, whoever set it: it holds for all workers. */
export const hasDayBudget = sql<number>`EXISTS (SELECT 1 FROM budgets
  WHERE scope = 'day:' || date(${sql.placeholder("now")} / 1000, 'unixepoch'))`;

/** The budgets that a request was reserved in, whatever the day is by now. */
const scopesOfCall = `('batch:' || (SELECT batch_id FROM runs WHERE id = @runId), 'day:' || date(@startedAt / 1000, 'unixepoch'))`;

/**
 * Whether a budget is used up on which the run would be begun: that of its batch, or of the day `@day`. Runs that have
 * begun are claimed all the same: to wait, or to be ended.
 */
export const heldByBudget = `(runs.epoch = 0 AND runs.cancel_at IS NULL AND EXISTS (SELECT 1 FROM budgets
  WHERE exhausted_at IS NOT NULL AND scope IN ('batch:' || runs.batch_id, @day)))`;

/** Whether an ended request has to be settled in a budget; costs next to nothing where there is none at all. */
export const hasBudget = sql<number>`EXISTS (SELECT 1 FROM budgets) AND EXISTS (SELECT 1 FROM budgets WHERE scope IN (
  'batch:' || (SELECT batch_id FROM runs WHERE id = run_id), 'day:' || date(${modelCalls.startedAt} / 1000, 'unixepoch')))`;

/** What an ended or open request took, as the sums of a budget that begins late count it. */
const takenMicro = "coalesce(sum(coalesce(model_calls.cost_micro, reserved_micro, 0)), 0)";
const takenTokens =
  "coalesce(sum(coalesce(model_calls.prompt_tokens + model_calls.completion_tokens, reserved_tokens, 0)), 0)";

/** Sets aside what requests may cost, and gives back what they did not. Its functions run inside the caller's transaction. */
export function budgetKeeper({ sqlite }: Pick<StoreContext, "sqlite">) {
  const statements = prepareStatements(sqlite);

  /** The budget of today, which counts what was used before somebody set it. */
  function openDay(caps: Caps, { at, hasDayBudget }: Spender): BudgetRow | undefined {
    if (!hasDayBudget && !hasCap(caps)) return undefined;
    const scope = `day:${dayOf(at)}`;
    const known = statements.get.get({ scope });
    if (known) return known;
    const used = statements.sumDay.get({ since: Date.parse(dayOf(at)) });
    return statements.create.get({ scope, ...capColumns(caps), ...used });
  }

  function requireRoom(run: Spender, worst: Amount, shared: BudgetRow[], task: Caps): Refusal | null {
    const own = { scope: "task" as const, usedMicro: run.costMicro, usedTokens: run.usedTokens };
    const refusal = refuse({ ...own, ...capColumns(task) }, worst);
    if (refusal) return { ...refusal, batch: null, isPassing: false, wakeAt: null };
    for (const row of shared) {
      const scope = scopeOf(row);
      const full = refuse({ ...row, scope }, worst);
      if (!full) continue;
      const batchId = scope === "batch" ? run.batchId : null;
      const isPassing =
        full.needed !== null && statements.findOpen.get({ runId: run.runId, batchId }) !== undefined;
      if (!isPassing && full.needed !== null) statements.exhaust.run({ scope: row.scope, at: run.at });
      const name = scope === "batch" ? statements.nameBatch.get({ id: run.batchId })?.name : null;
      const wakeAt = isPassing ? run.at + lookAgainMs : scope === "day" ? endOfDay(run.at) : null;
      return { ...full, batch: name ?? null, isPassing, wakeAt };
    }
    return null;
  }

  return {
    /** Sets the worst case of a request aside in every budget that bounds it, or says which one does not suffice. */
    reserve(run: Spender, wish: BudgetWish | undefined): Reserved | { refusal: Refusal } {
      if (wish === undefined) return nothingReserved;
      const batch = run.hasBatchBudget ? statements.get.get({ scope: `batch:${run.batchId}` }) : undefined;
      const day = openDay(wish.day, run);
      const shared = [batch, day].filter((row) => row !== undefined);
      if (!wish.isPriced && shared.length === 0 && !hasCap(wish.task)) return nothingReserved;
      const worst = wish.worst();
      const refusal = requireRoom(run, worst, shared, wish.task);
      if (refusal) return { refusal };
      for (const { scope } of shared) {
        statements.add.run({ scope, micro: worst.micro ?? 0, tokens: worst.tokens });
      }
      return worst;
    },

    /** What an ended request cost beyond its reservation; what it cost less is given back. */
    settle({ runId, call, charge }: Ended): void {
      if (!call?.hasBudget || !charge) return;
      const { deltaMicro: micro, deltaTokens: tokens } = charge;
      statements.settle.run({ runId, startedAt: call.startedAt, micro, tokens });
    },
  };
}

function scopeOf({ scope }: BudgetRow): Budget["scope"] {
  return scope.startsWith("day:") ? "day" : "batch";
}

function capColumns({ micro, tokens }: Caps) {
  return { capMicro: micro, capTokens: tokens };
}

const columns = `scope, cap_micro AS capMicro, used_micro AS usedMicro, cap_tokens AS capTokens, used_tokens AS usedTokens,
  exhausted_at AS exhaustedAt`;

function prepareStatements(sqlite: StoreContext["sqlite"]) {
  type Sums = { usedMicro: number; usedTokens: number };
  return {
    get: sqlite.prepare<{ scope: string }, BudgetRow>(`SELECT ${columns} FROM budgets WHERE scope = @scope`),
    create: sqlite.prepare<Record<string, unknown>, BudgetRow>(`
      INSERT INTO budgets (scope, cap_micro, used_micro, cap_tokens, used_tokens)
      VALUES (@scope, @capMicro, @usedMicro, @capTokens, @usedTokens) RETURNING ${columns}`),
    // Reads every request there is, once a day.
    sumDay: sqlite.prepare<{ since: number }, Sums>(`
      SELECT ${takenMicro} AS usedMicro, ${takenTokens} AS usedTokens FROM model_calls WHERE started_at >= @since`),
    add: sqlite.prepare<{ scope: string; micro: number; tokens: number }>(`
      UPDATE budgets SET used_micro = used_micro + @micro, used_tokens = used_tokens + @tokens WHERE scope = @scope`),
    settle: sqlite.prepare<Record<string, unknown>>(`
      UPDATE budgets SET used_micro = used_micro + @micro, used_tokens = used_tokens + @tokens WHERE scope IN ${scopesOfCall}`),
    exhaust: sqlite.prepare<{ scope: string; at: number }>(
      "UPDATE budgets SET exhausted_at = coalesce(exhausted_at, @at) WHERE scope = @scope",
    ),
    // At most one request of a run is open, its newest. One of a dead owner is none once the run was taken over.
    findOpen: sqlite.prepare<{ runId: string; batchId: string | null }, { found: number }>(`
      SELECT 1 AS found FROM runs JOIN model_calls ON run_id = runs.id AND state = 'sent'
        AND n = (SELECT max(n) FROM model_calls WHERE run_id = runs.id)
      WHERE status = 'running' AND runs.id != @runId AND (@batchId IS NULL OR batch_id = @batchId) LIMIT 1`),
    nameBatch: sqlite.prepare<{ id: string }, { name: string | null }>(
      "SELECT name FROM batches WHERE id = @id",
    ),
  };
}

/** The verbs of people: what budgets there are, and other bounds for them. */
export function budgetVerbs({ sqlite, read, write, now, newId }: StoreContext) {
  const { create, get } = prepareStatements(sqlite);
  const enterBatch = sqlite.prepare<Record<string, unknown>>(
    "INSERT INTO batches (id, name, created_at) VALUES (@id, @name, @now) ON CONFLICT DO NOTHING",
  );
  const findBatch = sqlite.prepare<{ name: string }, { id: string }>(
    "SELECT id FROM batches WHERE name = @name",
  );
  const sumBatch = sqlite.prepare<{ id: string }, { usedMicro: number; usedTokens: number }>(`
    SELECT ${takenMicro} AS usedMicro, ${takenTokens} AS usedTokens FROM runs JOIN model_calls ON run_id = runs.id
    WHERE batch_id = @id`);
  const change = sqlite.prepare<Record<string, unknown>, BudgetRow>(`
    UPDATE budgets SET cap_micro = @capMicro, cap_tokens = @capTokens, exhausted_at = NULL WHERE scope = @scope
      AND (cap_micro IS NOT @capMicro OR cap_tokens IS NOT @capTokens) RETURNING ${columns}`);
  const list = sqlite.prepare<{ day: string; batch: string | null }, BudgetView>(`
    SELECT ${columns}, batches.name AS batch FROM budgets LEFT JOIN batches ON scope = 'batch:' || batches.id
    WHERE (scope LIKE 'batch:%' OR scope = @day) AND (@batch IS NULL OR batches.name = @batch) ORDER BY batches.id`);

  return {
    /**
     * Bounds what a batch may use; a bound that is left out stays. What it has used already counts. Makes the batch where
     * there is none yet. Gives the budget as it was, if there was one, and as it is.
     */
    setBatchBudget(
      name: string,
      given: Partial<Caps>,
    ): Promise<{ before: BudgetRow | undefined; after: BudgetRow }> {
      return write(() => {
        enterBatch.run({ id: newId(), name, now: now() });
        const id = findBatch.get({ name })?.id ?? "";
        const scope = `batch:${id}`;
        const before = get.get({ scope });
        const { micro = before?.capMicro ?? null, tokens = before?.capTokens ?? null } = given;
        const caps = capColumns({ micro, tokens });
        const after = before
          ? (change.get({ scope, ...caps }) ?? before)
          : create.get({ scope, ...caps, ...sumBatch.get({ id }) });
        if (!after) throw new ConfigError(`expected to set the budget of batch ${name}, got no such batch`);
        return { before, after };
      });
    },

    /** Bounds today's use, where a budget of today is there already; true if that changed it. */
    setDayBudget(caps: Caps): Promise<boolean> {
      const scope = `day:${dayOf(now())}`;
      return write(() => change.get({ scope, ...capColumns(caps) }) !== undefined);
    },

    /** Those of the batches, or of one, and today's. */
    loadBudgets(batch: string | null = null): Promise<BudgetView[]> {
      return read(() => list.all({ day: `day:${dayOf(now())}`, batch }));
    },
  };
}
