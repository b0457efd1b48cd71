import type { Usage } from "../model/model.ts";

/** Upper bounds of what may be used; null is none. */
export interface Caps {
  micro: number | null;
  tokens: number | null;
}

/** Micro-dollars, null where no price is known, and tokens of prompt and reply. */
export interface Amount {
  micro: number | null;
  tokens: number;
}

/** A bound and what of it is taken: spent, or reserved by requests under way. */
export interface Budget {
  scope: "task" | "batch" | "day";
  capMicro: number | null;
  usedMicro: number;
  capTokens: number | null;
  usedTokens: number;
}

/** Why a request was not sent. */
export interface Refusal {
  scope: Budget["scope"];
  /** Name of the batch whose budget it is. */
  batch: string | null;
  unit: "usd" | "tokens";
  /** Micro-dollars or tokens. */
  cap: number;
  used: number;
  /** What the request may take at the most; null where its price is not known. */
  needed: number | null;
  /** Requests of others are under way, which may give back what they do not use. */
  isPassing: boolean;
  /** When to look again, in epoch milliseconds; null where only people can change it. */
  wakeAt: number | null;
}

/** What a request is allowed, and may take. */
export interface BudgetWish {
  task: Caps;
  day: Caps;
  /** Whether its price is known: then the worst case is reserved even where no budget bounds it. */
  isPriced: boolean;
  /** The most it can take. */
  worst(): Amount;
}

/** What was set aside for a request; null is nothing. */
export interface Reserved {
  micro: number | null;
  tokens: number | null;
}

/** What an ended request adds to its run and, beyond what was reserved, to budgets. */
export interface Charge {
  /** Null: nobody knows. */
  costMicro: number | null;
  /** Reserved tokens that may have been used, as nobody counted. */
  uncountedTokens: number;
  /** Below zero: given back. */
  deltaMicro: number;
  deltaTokens: number;
}

export const noCaps: Caps = { micro: null, tokens: null };
export const nothingReserved: Reserved = { micro: null, tokens: null };

export function hasCap({ micro, tokens }: Caps): boolean {
  return micro !== null || tokens !== null;
}

/** Whole micro-dollars of a price in dollars. */
export function microOf(usd: number | null | undefined): number | null {
  return usd == null ? null : Math.round(usd * 1_000_000);
}

/** An amount as people read it: `$1.25`, `0.0042` dollars as `$0.0042`, or tokens. */
export function describeAmount(unit: Refusal["unit"], amount: number): string {
  return unit === "usd" ? dollars(amount) : `${amount} tokens`;
}

/** Micro-dollars as people read them; smaller sums with more digits. */
export function dollars(micro: number): string {
  const digits = micro >= 1_000_000 || micro % 10_000 === 0 ? 2 : micro >= 1000 ? 4 : 6;
  return `$${(micro / 1_000_000).toFixed(digits)}`;
}

/** Null where the budget suffices for the worst case of a request. */
export function refuse(
  budget: Budget,
  worst: Amount,
): Omit<Refusal, "batch" | "isPassing" | "wakeAt"> | null {
  const { scope, capMicro, usedMicro, capTokens, usedTokens } = budget;
  if (capMicro !== null && (worst.micro === null || usedMicro + worst.micro > capMicro)) {
    return { scope, unit: "usd", cap: capMicro, used: usedMicro, needed: worst.micro };
  }
  if (capTokens !== null && usedTokens + worst.tokens > capTokens) {
    return { scope, unit: "tokens", cap: capTokens, used: usedTokens, needed: worst.tokens };
  }
  return null;
}

/**
 * What an ended request is charged. What nobody counted keeps its reservation: it may have been done and billed.
 * `costMicro` is what its usage cost, null where usage or price are not known.
 */
export function chargeOf(request: { reserved: Reserved; usage: Usage; costMicro: number | null }): Charge {
  const { reserved, usage, costMicro } = request;
  const { promptTokens, completionTokens } = usage;
  const isCounted = promptTokens !== null && completionTokens !== null;
  const micro = costMicro ?? reserved.micro;
  const uncountedTokens = isCounted ? 0 : (reserved.tokens ?? 0);
  const tokens = isCounted ? promptTokens + completionTokens : uncountedTokens;
  return {
    costMicro: micro,
    uncountedTokens,
    deltaMicro: (micro ?? 0) - (reserved.micro ?? 0),
    deltaTokens: tokens - (reserved.tokens ?? 0),
  };
}

/** The day of an instant, in UTC, which is the same for all workers. */
export function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}

/** When the day of an instant ends. */
export function endOfDay(at: number): number {
  return Date.parse(dayOf(at)) + 86_400_000;
}
