import type { BudgetView } from "../db/budgets.ts";
import { describeAmount, dollars } from "../limits/budget.ts";

/** What requests used and cost, summaries and failed ones among them. */
export interface UsageReport {
  promptTokens: number;
  completionTokens: number;
  cachedTokens: number;
  /** Null where the cost of some request is not known. */
  costUsd: number | null;
  /** What those cost of which it is known. */
  pricedUsd: number;
  /** How many requests have no known cost. */
  unpricedRequests: number;
}

/** A budget that several runs share. */
export interface BudgetReport {
  /** Null for that of the day. */
  batch: string | null;
  /** The day in UTC, null for that of a batch. */
  day: string | null;
  capUsd: number | null;
  usedUsd: number;
  capTokens: number | null;
  usedTokens: number;
  /** Nothing new is begun on it: a request did not fit. */
  isUsedUp: boolean;
}

interface Used {
  promptTokens: number;
  completionTokens: number;
  cachedTokens: number;
  costMicro: number;
  unpricedCalls: number;
}

export function reportUsage(used: Used): UsageReport {
  const { promptTokens, completionTokens, cachedTokens, costMicro, unpricedCalls } = used;
  const pricedUsd = usdOf(costMicro);
  const costUsd = unpricedCalls > 0 ? null : pricedUsd;
  return {
    promptTokens,
    completionTokens,
    cachedTokens,
    costUsd,
    pricedUsd,
    unpricedRequests: unpricedCalls,
  };
}

/** What it cost, for people: `$0.42`, `$0.42 and 3 requests of unknown price`; empty where nothing is known. */
export function describeCost({ costUsd, pricedUsd, unpricedRequests }: UsageReport): string {
  const priced = dollars(Math.round(pricedUsd * 1_000_000));
  if (costUsd !== null) return priced;
  const unknown = `${unpricedRequests} request${unpricedRequests === 1 ? "" : "s"} of unknown price`;
  return pricedUsd === 0 ? "" : `${priced} and ${unknown}`;
}

export function reportBudget(budget: BudgetView): BudgetReport {
  const { scope, batch, capMicro, usedMicro, capTokens, usedTokens, exhaustedAt } = budget;
  return {
    batch,
    day: scope.startsWith("day:") ? scope.slice("day:".length) : null,
    capUsd: capMicro === null ? null : usdOf(capMicro),
    usedUsd: usdOf(usedMicro),
    capTokens,
    usedTokens,
    isUsedUp: exhaustedAt !== null,
  };
}

/** A line about a budget, for people. */
export function describeBudget(budget: BudgetReport): string {
  const { batch, day, capUsd, usedUsd, capTokens, usedTokens, isUsedUp } = budget;
  const micro = (usd: number) => Math.round(usd * 1_000_000);
  const amounts = [
    ...(capUsd === null ? [] : [`${dollars(micro(usedUsd))} of ${dollars(micro(capUsd))}`]),
    ...(capTokens === null ? [] : [`${usedTokens} of ${describeAmount("tokens", capTokens)}`]),
  ];
  const whose = batch === null ? `day ${day} (UTC)` : `batch ${batch}`;
  const unit = capUsd === null ? "tokens" : "usd";
  const goOn =
    batch === null
      ? "it goes on at 00:00 UTC"
      : `pawl enqueue --batch ${batch} --batch-budget-${unit} N raises it`;
  return `${whose}: ${amounts.join(", ")}${isUsedUp ? `; used up, nothing new is begun: ${goOn}` : ""}`;
}

function usdOf(micro: number): number {
  return micro / 1_000_000;
}
