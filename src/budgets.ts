import type { Config } from "./config.ts";
import type { Store } from "./db/store.ts";
import { ConfigError } from "./errors.ts";
import { type Caps, endOfDay, hasCap, microOf } from "./limits/budget.ts";
import { findPrice, isListed } from "./limits/prices.ts";

/** Bounds of a batch; what is left out stays as it is. */
export interface BatchBudget {
  usd?: number | undefined;
  tokens?: number | undefined;
}

/** What became of a batch's budget. */
export interface BatchBudgetChange {
  /** As it was; undefined where the batch had none. */
  before: Caps | undefined;
  after: Caps;
  /** Runs that waited for it and go on. */
  resumed: string[];
}

/** What the configuration says of money, over this database. */
export function openBudgets(config: Config, store: Store) {
  const day: Caps = { micro: microOf(config.dayBudgetUsd), tokens: config.dayBudgetTokens };
  return {
    day,
    /** Throws ConfigError where a task has a budget in dollars and its model no known price. */
    requirePrice: (task: Priced) => requirePrice(config, task),
    /** Bounds what a batch may use, what it has used counted; runs that waited for its budget go on. */
    setBatch(batch: string, budget: BatchBudget): Promise<BatchBudgetChange> {
      if (budget.usd !== undefined) requirePrice(config, { budgetUsd: budget.usd });
      return setBatchBudget(store, batch, budget);
    },
    /**
     * Makes the configured budget that of today; without one, what another worker set stays. Where that changes it, the runs
     * that wait for tomorrow go on.
     */
    async setDay(): Promise<void> {
      if (!hasCap(day) || !(await store.setDayBudget(day))) return;
      await resumeWaiting(store, { wakeAt: endOfDay(store.now()) });
    },
  };
}

interface Priced {
  model?: string | null;
  budgetUsd?: number | undefined;
  fallbackModels?: string[] | undefined;
}

async function setBatchBudget(
  store: Store,
  batch: string,
  { usd, tokens }: BatchBudget,
): Promise<BatchBudgetChange> {
  const micro = microOf(usd);
  const given = { ...(micro !== null && { micro }), ...(tokens !== undefined && { tokens }) };
  const { before, after } = await store.setBatchBudget(batch, given);
  const capsOf = (row: typeof after) => ({ micro: row.capMicro, tokens: row.capTokens });
  // Other waits for a quota have a time at which they end.
  const resumed = await resumeWaiting(store, { batch, wakeAt: null });
  return { before: before && capsOf(before), after: capsOf(after), resumed };
}

async function resumeWaiting(
  store: Store,
  { batch, wakeAt }: { batch?: string; wakeAt: number | null },
): Promise<string[]> {
  const waiting = await store.loadRuns({ batch, status: "waiting" });
  const found = waiting.filter((run) => run.waitKind === "quota" && run.wakeAt === wakeAt);
  for (const { id } of found) await store.resume(id);
  return found.map(({ id }) => id);
}

/**
 * Throws ConfigError where a budget in dollars could not hold, because the price of the model is not known. Where the
 * service is not known yet, a model that any vendor lists will do: its worker looks again.
 */
export function requirePrice(
  config: Pick<Config, "model" | "baseUrl" | "prices" | "dayBudgetUsd" | "fallbackModels">,
  task: Priced,
): void {
  if (task.budgetUsd === undefined && config.dayBudgetUsd === null) return;
  const { baseUrl, prices: own } = config;
  const models = [task.model ?? config.model, ...(task.fallbackModels ?? config.fallbackModels)];
  const isKnown = (model: string) =>
    findPrice(model, { baseUrl, own }) !== null || (baseUrl === null && isListed(model));
  const model = models.find((each) => each !== null && !isKnown(each));
  if (typeof model !== "string") return;
  throw new ConfigError(
    `expected a model with a known price, as there is a budget in dollars, got ${model}: set prices in the configuration, such as {"prices": {${JSON.stringify(model)}: {"input": 1, "output": 4}}} in dollars for a million tokens, or use a budget in tokens`,
  );
}
