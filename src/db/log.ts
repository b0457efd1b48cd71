import {
  type BudgetWish,
  type Charge,
  nothingReserved,
  type Refusal,
  type Reserved,
} from "../limits/budget.ts";
import type { Usage } from "../model/model.ts";
import { budgetKeeper } from "./budgets.ts";
import type { Claim } from "./claim.ts";
import { lostLease, ownershipCheck } from "./fence.ts";
import { prepareLogStatements, type Spent, sumsOf } from "./log-statements.ts";
import type { CallState, MessageKind } from "./schema.ts";
import { snapshotWriter } from "./snapshots.ts";
import type { StoreContext } from "./store.ts";

/** One message at the run's next seq. */
export interface NewMessage {
  seq: number;
  step: number;
  kind: MessageKind;
  /** Position of the tool call that a result answers. */
  ordinal?: number;
  body: string;
  tokens: number;
  /** The workspace as it is after this message, where it changed since the snapshot before. */
  tree?: string | undefined;
}

export interface PlannedCall {
  ordinal: number;
  tool: string;
  class: string;
  /** The id the call has on the wire. */
  wireId: string;
}

export interface ModelCallPlan {
  n: number;
  step: number;
  purpose: "step" | "summary";
  model: string;
  /** What bounds its cost; left out where nothing is known of money. */
  budget?: BudgetWish;
}

/** What the plan of a request met. With a refusal there is no request. */
export interface Planned {
  cancelAt: number | null;
  pauseAt: number | null;
  reserved: Reserved;
  refusal: Refusal | null;
}

export interface SettledModelCall {
  n: number;
  usage: Usage;
  responseId: string | null;
  /** Left out where no price is known and nothing was reserved. */
  charge?: Charge;
}

export interface NewCompaction {
  n: number;
  kind: "prune" | "summary" | "digest";
  throughSeq: number;
  body: string;
  /** Number of the run's newest request: the one that wrote this, or was to. */
  modelCall: number | null;
  tokensBefore: number;
  tokensAfter: number;
}

/** The verbs of one step. All are fenced by the claim; messages are also fenced by triggers of the database. */
export function logVerbs(context: StoreContext) {
  const { read, write, now } = context;
  const statements = prepareLogStatements(context);
  const recordTree = snapshotWriter(context);
  const isOwner = ownershipCheck(context);
  const budgets = budgetKeeper(context);

  function requireOwned(claim: Claim): void {
    if (!isOwner({ ...claim, now: now() })) throw lostLease(claim);
  }

  function appendMessage(claim: Claim, message: NewMessage): void {
    statements.insertMessage.run({
      ...message,
      runId: claim.runId,
      epoch: claim.epoch,
      ordinal: message.ordinal ?? null,
      at: now(),
    });
    if (message.tree !== undefined) recordTree(claim.runId, message.seq, message.tree);
  }

  function spend(claim: Claim, spent: Spent | undefined, activeMs: number): void {
    const result = statements.spend.run({ ...claim, now: now(), activeMs, ...sumsOf(spent) });
    if (result.changes === 0) throw lostLease(claim);
  }

  function advance(claim: Claim, facts: { seq: number; activeMs: number }): void {
    const result = statements.advance.run({ ...claim, ...facts, now: now() });
    if (result.changes === 0) throw lostLease(claim);
  }

  function advanceStep(claim: Claim, facts: { seq: number; activeMs: number }, spent: Spent): void {
    const result = statements.advanceStep.run({ ...claim, ...facts, now: now(), ...sumsOf(spent) });
    if (result.changes === 0) throw lostLease(claim);
  }

  function settleModelCall(claim: Claim, settled: SettledModelCall): void {
    const { n, usage, responseId, charge } = settled;
    const facts = { n, ...usage, responseId, costMicro: charge?.costMicro ?? null, now: now() };
    const call = statements.settleModelCall.get({ runId: claim.runId, ...facts });
    requireOpen({ changes: call ? 1 : 0 }, `request ${n} of run ${claim.runId}`);
    budgets.settle({ runId: claim.runId, call, charge });
  }

  return {
    /** Writes nothing; throws LeaseLostError unless the claim still holds. */
    confirmOwned(claim: Claim): Promise<void> {
      return read(() => requireOwned(claim));
    },

    /**
     * Before a request: limits were checked, the request is recorded as sent and the most it can cost is set aside.
     * Returns what was asked of the run meanwhile, and which budget does not suffice: then nothing is recorded.
     */
    plan(claim: Claim, { budget, ...call }: ModelCallPlan, activeMs: number): Promise<Planned> {
      return write(() => {
        const at = now();
        const run = statements.touch.get({ ...claim, now: at, activeMs });
        if (!run) throw lostLease(claim);
        const { cancelAt, pauseAt } = run;
        const { runId, epoch } = claim;
        const reserved = budgets.reserve({ ...run, runId, at }, budget);
        if ("refusal" in reserved) return { cancelAt, pauseAt, reserved: nothingReserved, ...reserved };
        const { micro: reservedMicro, tokens: reservedTokens } = reserved;
        statements.insertModelCall.run({
          ...call,
          runId,
          epoch,
          startedAt: at,
          reservedMicro,
          reservedTokens,
        });
        return { cancelAt, pauseAt, reserved, refusal: null };
      });
    },

    /** The reply as it came, its calls as planned, and what it cost: one commit. */
    appendReply(
      claim: Claim,
      reply: NewMessage,
      facts: { calls: PlannedCall[]; settled: SettledModelCall; activeMs: number },
    ): Promise<void> {
      return write(() => {
        const { activeMs, settled } = facts;
        advanceStep(claim, { seq: reply.seq, activeMs }, settled);
        appendMessage(claim, reply);
        for (const call of facts.calls) {
          statements.insertCall.run({ ...call, runId: claim.runId, step: reply.step, epoch: claim.epoch });
        }
        settleModelCall(claim, settled);
      });
    },

    /** A message that no call or request hangs on: the first rows, notes. */
    appendMessage(claim: Claim, message: NewMessage, activeMs: number): Promise<void> {
      return write(() => {
        advance(claim, { seq: message.seq, activeMs });
        appendMessage(claim, message);
      });
    },

    /** The start row of a call that must not simply be repeated: committed before it runs. */
    startCall(claim: Claim, call: { step: number; ordinal: number }): Promise<void> {
      return write(() => {
        requireOwned(claim);
        const started = { ...call, runId: claim.runId, epoch: claim.epoch, now: now() };
        requireOpen(
          statements.startCall.run(started),
          `call ${call.step}.${call.ordinal} of run ${claim.runId}`,
        );
      });
    },

    /** One result, linked to its call. */
    appendResult(
      claim: Claim,
      result: NewMessage & { ordinal: number },
      facts: { state: CallState; note: string | null; activeMs: number },
    ): Promise<void> {
      return write(() => {
        advance(claim, { seq: result.seq, activeMs: facts.activeMs });
        appendMessage(claim, result);
        const { step, ordinal, seq: resultSeq } = result;
        const { state, note } = facts;
        const ended = { runId: claim.runId, step, ordinal, state, note, resultSeq, now: now() };
        requireOpen(statements.endCall.run(ended), `call ${step}.${ordinal} of run ${claim.runId}`);
      });
    },

    /** A request that brought no reply, or one of no use, which is paid for all the same; one that was settled stays so. */
    failModelCall(claim: Claim, call: SettledModelCall & { error: string }, activeMs: number): Promise<void> {
      return write(() => {
        const { usage, charge, ...facts } = call;
        const costMicro = charge?.costMicro ?? null;
        const failed = { ...facts, ...usage, costMicro, runId: claim.runId, now: now() };
        const open = statements.failModelCall.get(failed);
        spend(claim, open && call, activeMs);
        budgets.settle({ runId: claim.runId, call: open, charge });
      });
    },

    /** What stands for the messages up to `throughSeq` from now on; the messages stay. */
    compact(
      claim: Claim,
      compaction: NewCompaction,
      settled: SettledModelCall | null,
      activeMs: number,
    ): Promise<void> {
      return write(() => {
        spend(claim, settled ?? undefined, activeMs);
        if (settled) settleModelCall(claim, settled);
        statements.insertCompaction.run({ ...compaction, runId: claim.runId, at: now() });
      });
    },
  };
}

/** A call is answered once and a request settled once, whatever the caller believes. */
function requireOpen(result: { changes: number }, what: string): void {
  if (result.changes === 0) throw new Error(`expected ${what} to be open, but it is not there or has ended`);
}
