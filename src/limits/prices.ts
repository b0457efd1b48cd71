import { readFileSync } from "node:fs";
import type { Usage } from "../model/model.ts";

/** What a model costs, in US dollars for a million tokens, as people and the price list write it. */
interface ListPrice {
  input: number;
  /** Of prompt tokens that the provider had cached; the input price where it says none. */
  cachedInput?: number | undefined;
  output: number;
}

/** Prices by the name of the model. */
export type ListPrices = Record<string, ListPrice>;

/** What a model costs, in micro-dollars for a million tokens. */
export interface Price extends Rates {
  /** What holds for a request with a longer prompt, all of its tokens. */
  above?: Rates & { promptTokens: number };
}

interface Rates {
  input: number;
  cachedInput: number;
  output: number;
}

/** `prices.json`: dated, from public lists. */
interface PriceList {
  /** Hosts that pass other vendors' models on at the vendors' prices. */
  routers: string[];
  vendors: Record<string, { hosts: string[]; isSameAtRouters?: boolean; models: ListModels }>;
}

type ListModels = Record<string, ListPrice & { above?: ListPrice & { promptTokens: number } }>;

const microDollars = 1_000_000;
const pricedTokens = 1_000_000n;

/**
 * What a model costs at a service; null where nobody knows. The user's own prices go before the list, which counts only at
 * the vendor's own host and at routers: the same open model costs something else at every other one, and nothing here.
 */
export function findPrice(model: string, where: { baseUrl: string | null; own: ListPrices }): Price | null {
  const own = findModel(model, where.own);
  if (own) return toPrice(own);
  const host = where.baseUrl !== null && URL.canParse(where.baseUrl) ? new URL(where.baseUrl).hostname : "";
  const isAt = (name: string) => host === name || host.endsWith(`.${name}`);
  const { routers, vendors } = loadList();
  const isRouter = routers.some(isAt);
  for (const { hosts, isSameAtRouters, models } of Object.values(vendors)) {
    if (!hosts.some(isAt) && !(isRouter && isSameAtRouters)) continue;
    const found = findModel(model, models);
    if (found) return toPrice(found);
  }
  return null;
}

/** Whether the list knows the model at any vendor. */
export function isListed(model: string): boolean {
  return Object.values(loadList().vendors).some(({ models }) => findModel(model, models) !== undefined);
}

/** What a reply cost, in micro-dollars, rounded up; null where the provider did not count. */
export function costOf(price: Price, usage: Usage): number | null {
  const { promptTokens, completionTokens, cachedTokens, reasoningTokens } = usage;
  if (promptTokens === null || completionTokens === null) return null;
  // Where more is cached than there is prompt, or more reasoned than completed, it was counted beside it.
  const cached = Math.min(cachedTokens ?? 0, promptTokens);
  const beside = (reasoningTokens ?? 0) > completionTokens ? (reasoningTokens ?? 0) : 0;
  const { input, cachedInput, output } = ratesFor(price, promptTokens);
  return charge([
    [promptTokens - cached, input],
    [cached, cachedInput],
    [completionTokens + beside, output],
  ]);
}

/** The most that a request can cost, in micro-dollars. */
export function worstCostOf(price: Price, bounds: { promptTokens: number; outputTokens: number }): number {
  const { promptTokens, outputTokens } = bounds;
  const plain = { input: price.input, cachedInput: price.cachedInput, output: price.output };
  // The bound of the prompt may be above the step in the price, and its true length below: the dearer of the two counts.
  const rates = [plain, ratesFor(price, promptTokens)];
  return Math.max(
    ...rates.map(({ input, cachedInput, output }) =>
      charge([
        [promptTokens, Math.max(input, cachedInput)],
        [outputTokens, output],
      ]),
    ),
  );
}

function ratesFor({ above, ...rates }: Price, promptTokens: number): Rates {
  return above !== undefined && promptTokens > above.promptTokens ? above : rates;
}

/** Exact: tokens times price leaves the numbers that JavaScript counts exactly. */
function charge(parts: [tokens: number, rate: number][]): number {
  const sum = parts.reduce((total, [tokens, rate]) => total + BigInt(tokens) * BigInt(rate), 0n);
  return Number((sum + pricedTokens - 1n) / pricedTokens);
}

/** By the whole name, then by the last part of `vendor/model`; a date at its end may be missing in the list. */
function findModel<Listed>(model: string, models: Record<string, Listed>): Listed | undefined {
  const known = new Map(Object.entries(models).map(([name, price]) => [plain(name), price]));
  const last = plain(model).split("/").at(-1) ?? "";
  const undated = last.replace(/-(\d{8}|\d{4}-\d{2}-\d{2})$/, "");
  return known.get(plain(model)) ?? known.get(last) ?? known.get(undated);
}

/** Vendors write `4.5`, routers `4-5`, or the other way round. */
function plain(name: string): string {
  return name.toLowerCase().replaceAll(".", "-");
}

function toPrice({ above, ...list }: ListModels[string]): Price {
  const { promptTokens = 0 } = above ?? {};
  return { ...toRates(list), ...(above && { above: { ...toRates(above), promptTokens } }) };
}

function toRates({ input, output, cachedInput = input }: ListPrice): Rates {
  const micro = (dollars: number) => Math.ceil(Number((dollars * microDollars).toFixed(3)));
  return { input: micro(input), cachedInput: micro(cachedInput), output: micro(output) };
}

let list: PriceList | undefined;

function loadList(): PriceList {
  list ??= JSON.parse(readFileSync(new URL("./prices.json", import.meta.url), "utf8")) as PriceList;
  return list;
}
