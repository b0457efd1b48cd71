import { createHash } from "node:crypto";
import type { Store } from "../db/store.ts";
import { ModelError } from "../errors.ts";
import {
  admit,
  type Closed,
  closed,
  closedNow,
  type GateState,
  isClosed,
  isFree,
  limited,
  openState,
  type Refusal,
  served,
} from "./gate-state.ts";

/** What the user allows at most, of each model; null is no bound. */
export interface RateLimits {
  requestsPerMinute: number | null;
  tokensPerMinute: number | null;
}

/** One request that was let pass: `served`, `left` or `refused` is called once it is over. */
export interface Pass {
  model: string;
  served(): void;
  /** It brought neither a reply nor news of the provider. */
  left(): void;
  /** Whether the provider was not willing, so that the gate is shut for now and asking again costs no attempt. */
  refused(error: unknown): Promise<boolean>;
  /** After `refused`, when no retry is left: those who have another model use that for a while. */
  failed(error: ModelError): Promise<void>;
}

interface GateRequest {
  model: string;
  /** The caller has no other model: that this one's retries failed does not hold it back. */
  isLast: boolean;
  workerId: string;
  tokens(): number;
}

/** The gate before one account of a provider, as one worker's process sees it. */
export interface Gate {
  /** Whether the model's gate is shut; nothing is changed. */
  look(request: { model: string; isLast: boolean }): Promise<Closed | null>;
  /** Lets a request pass, or says why not now. `tokens` is what it may take, its reply included. */
  enter(request: GateRequest): Promise<Pass | Closed>;
  /** Whether nobody in this process was told yet that it is shut until then. */
  isNews(until: number): boolean;
}

export interface GateOptions {
  store: Pick<Store, "getGate" | "changeGate" | "now">;
  /** As `accountOf` names it. */
  account: string;
  limits: RateLimits;
  /** Takes secrets out of what the provider says. */
  redact?: (text: string) => string;
  random?: () => number;
}

/** The name of an account: where it is, and which key it has without telling it. */
export function accountOf(baseUrl: string, apiKey: string | null): string {
  const { origin } = new URL(baseUrl);
  if (!apiKey) return origin;
  return `${origin}#${createHash("sha256").update(apiKey).digest("hex").slice(0, 12)}`;
}

const minuteMs = 60_000;
/** Replies whose time is remembered, to tell how many came lately. */
const maxRemembered = 1_000;

/** The gate before one account of a provider; made once a process, as it knows what is under way here. */
export function openGate(options: GateOptions): Gate {
  const { store, account } = options;
  const locals = new Map<string, Local>();
  let saidUntil = 0;

  return {
    isNews(until) {
      const isNews = until > saidUntil;
      saidUntil = Math.max(saidUntil, until);
      return isNews;
    },
    async look({ model, isLast }) {
      const found = await store.getGate(`${account} ${model}`);
      return found ? closedNow(seenBy(found.row, isLast), store.now()) : null;
    },
    async enter({ model, isLast, workerId, tokens }) {
      const name = `${account} ${model}`;
      const local = locals.get(model) ?? { inFlight: 0, servedAt: [] };
      locals.set(model, local);
      const costMs = minuteShareMs(options.limits, tokens);
      const decide = (row: GateState, held: number) =>
        admit(seenBy(row, isLast), { now: store.now(), held, costMs });
      const found = await store.getGate(name);
      const isCounted = costMs > 0 || (found !== undefined && !isFree(found.row));
      const pass = () => createPass({ options, local, name, model, workerId, isCounted });
      if (!isCounted) return pass();
      // Those who wait look often, and without the write lock.
      const first = found && decide(found.row, found.held);
      if (first && isClosed(first)) return first;
      let answer: GateState | Closed = openState;
      await store.changeGate(name, { workerId, slots: 1 }, (row, held) => {
        answer = decide(row ?? openState, held);
        if (isClosed(answer)) return null;
        // That one run has no other model opens the gate for none that has.
        const { reason, note, pausedUntil } = row ?? openState;
        return reason === "failing" && isLast ? { ...answer, reason, note, pausedUntil } : answer;
      });
      return isClosed(answer) ? answer : pass();
    },
  };
}

/** What this process knows of a model beside the row. */
interface Local {
  inFlight: number;
  servedAt: number[];
}

function seenBy<State extends GateState>(state: State, isLast: boolean): State {
  return isLast && state.reason === "failing"
    ? { ...state, reason: null, note: null, pausedUntil: null }
    : state;
}

/** How long the minute's allowance takes to give what one request takes. */
function minuteShareMs({ requestsPerMinute, tokensPerMinute }: RateLimits, tokens: () => number): number {
  const ofRequests = requestsPerMinute === null ? 0 : minuteMs / requestsPerMinute;
  const ofTokens = tokensPerMinute === null ? 0 : (minuteMs * tokens()) / tokensPerMinute;
  return Math.ceil(Math.max(ofRequests, ofTokens));
}

interface Entry {
  options: GateOptions;
  local: Local;
  name: string;
  model: string;
  workerId: string;
  /** Whether it has a slot in the database. */
  isCounted: boolean;
}

function createPass({ options, local, name, model, workerId, isCounted }: Entry): Pass {
  const { store, redact = (text) => text, random = Math.random } = options;
  const sentAt = store.now();
  local.inFlight += 1;

  function end(change: (state: GateState, held: number) => GateState): Promise<void> {
    local.inFlight -= 1;
    const slots = isCounted ? -1 : 0;
    return store.changeGate(name, { workerId, slots }, (row, held) => change(row ?? openState, held));
  }

  function leave(change: (state: GateState) => GateState): void {
    // What fails here fails for the run's own verbs too, which say so.
    if (isCounted) end(change).catch(() => {});
    else local.inFlight -= 1;
  }

  function refusalOf(error: ModelError, inFlight: number): Refusal {
    const now = store.now();
    const servedWithin = (ms: number) => local.servedAt.filter((at) => at > now - ms).length;
    const { message, retryAfterMs } = error;
    return { now, sentAt, note: redact(message), retryAfterMs, inFlight, servedWithin, random: random() };
  }

  return {
    model,
    served() {
      local.servedAt = [...local.servedAt.slice(1 - maxRemembered), store.now()];
      leave((state) => served(state, store.now()));
    },
    left: () => leave((state) => state),
    async refused(error) {
      const kind = error instanceof ModelError ? error.kind : undefined;
      const isOfGate = error instanceof ModelError && (error.isLimit || kind === "quota" || kind === "auth");
      if (!isOfGate) {
        leave((state) => state);
        return false;
      }
      const { inFlight } = local;
      await end((state, held) => {
        const refusal = refusalOf(error, Math.max(held, inFlight));
        return kind === "quota" || kind === "auth" ? closed(state, kind, refusal) : limited(state, refusal);
      });
      return true;
    },
    failed: (error) =>
      store.changeGate(name, { workerId, slots: 0 }, (row) =>
        closed(row ?? openState, "failing", refusalOf(error, 1)),
      ),
  };
}
