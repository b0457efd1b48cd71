import { type BudgetWish, type Caps, describeAmount, noCaps, type Refusal } from "../limits/budget.ts";
import { worstCostOf } from "../limits/prices.ts";
import type { ChatMessage, ModelRequest } from "../model/model.ts";
import { outcomeOf } from "../outcome.ts";
import type { Agent, Ended } from "./loop.ts";
import { isPlausible } from "./measurement.ts";
import type { Refused } from "./request.ts";

/** What a provider may add to a prompt on its own: its template, and how tools are to be called. */
const providerTokens = 1000;
/** What it puts around a message. */
const messageTokens = 16;
/** More than any provider counts for an image. */
const imageTokens = 50_000;

/** What bounds an agent's spending beside its batch, whose budget is in the database. */
export interface AgentBudgets {
  task: Caps;
  day: Caps;
}

/** What is set aside for a request before it is sent: never less than it can cost. */
export function budgetWish(agent: Agent, purpose: "step" | "summary", request: ModelRequest): BudgetWish {
  const { task, day } = agent.budgets ?? { task: noCaps, day: noCaps };
  const price = agent.priceOf?.(request.model) ?? null;
  let amount: ReturnType<BudgetWish["worst"]> | undefined;
  const compute = () => {
    const promptTokens = promptBound(agent, purpose, request);
    const outputTokens = request.maxOutputTokens ?? agent.maxOutputTokens;
    const micro = price && worstCostOf(price, { promptTokens, outputTokens });
    return { micro, tokens: promptTokens + outputTokens };
  };
  return { task, day, isPriced: price !== null, worst: () => (amount ??= compute()) };
}

/**
 * Never less than the provider counts. No token is shorter than a byte; and what the provider counted at the last request,
 * which this one extends, is known.
 */
function promptBound(agent: Agent, purpose: "step" | "summary", request: ModelRequest): number {
  const { log } = agent;
  // With other models in its place nobody knows whose count it is.
  const isOneModel = request.model === agent.modelName && (agent.gate?.fallbackModels ?? []).length === 0;
  const measured = purpose === "step" && isOneModel ? log.measured() : null;
  if (measured !== null && isPlausible(measured)) {
    const { entries } = log.state;
    const since = entries.slice(entries.findLastIndex(({ kind }) => kind === "reply"));
    return measured.promptTokens + sum(since.map(({ message }) => messageBound(message)));
  }
  const tools = request.tools ? Buffer.byteLength(JSON.stringify(request.tools)) : 0;
  return providerTokens + tools + sum(request.messages.map(messageBound));
}

function messageBound(message: ChatMessage): number {
  const parts = Array.isArray(message.content) ? message.content : [];
  const images = parts.filter(({ type }) => type === "image_url");
  if (images.length === 0) return messageTokens + Buffer.byteLength(JSON.stringify(message));
  const others = parts.filter(({ type }) => type !== "image_url");
  return messageTokens + images.length * imageTokens + Buffer.byteLength(JSON.stringify(others));
}

function sum(numbers: number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

/**
 * What becomes of a run whose next request no budget allows. A task's own budget ends it, with its work kept; that of its
 * batch or of the day, which others used too, lets it wait.
 */
export function endOfBudget(agent: Agent, { refusal, model }: Refused): Ended {
  const { scope, needed, wakeAt } = refusal;
  const name = whose(refusal);
  if (needed === null) {
    const note = `the price of ${model} is not known, and ${name} is in dollars: set prices in the configuration, such as {"prices": {${JSON.stringify(model)}: {"input": 1, "output": 4}}} in dollars for a million tokens, and resume the run`;
    return { wait: { kind: "auth", note, wakeAt: null } };
  }
  const amount = (number: number) => describeAmount(refusal.unit, number);
  const facts = `${amount(refusal.used)} of ${amount(refusal.cap)} used, and the next request may take up to ${amount(needed)} (a reply of up to ${agent.maxOutputTokens} tokens among it)`;
  const text = `${name} does not suffice: ${facts}; ${howToGoOn(agent, refusal)}`;
  if (scope === "task") return { outcome: outcomeOf("budget_limit", { error: text }) };
  return { wait: { kind: "quota", note: text, wakeAt } };
}

function whose({ scope, batch }: Refusal): string {
  if (scope === "batch") return `the budget of batch ${batch}`;
  return scope === "task" ? "the budget of the task" : "the budget of the day";
}

function howToGoOn({ log }: Agent, { scope, unit, batch, isPassing }: Refusal): string {
  const flag = `budget-${unit}`;
  if (isPassing) return "others' requests are under way, which may give some of it back";
  if (scope === "batch")
    return `pawl enqueue --batch ${batch} --batch-${flag} N raises it, and its runs go on`;
  if (scope === "day") return "it goes on at 00:00 UTC, or when a worker starts with a higher one";
  const { steps } = log.state;
  const fork = steps === 0 ? "" : `, or go on from its last step with pawl fork RUN --step ${steps}`;
  return `raise it with --${flag} and run pawl retry${fork}`;
}
