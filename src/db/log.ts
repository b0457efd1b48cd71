import { and, eq, sql } from "drizzle-orm";
import type { Usage } from "../model/model.ts";
import { type Claim, isOwned, requireOwned } from "./claim.ts";
import {
  type CallState,
  calls,
  compactions,
  type MessageKind,
  messages,
  modelCalls,
  runs,
} from "./schema.ts";
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
}

export interface SettledModelCall {
  n: number;
  usage: Usage;
  responseId: string | null;
}

export interface NewCompaction {
  n: number;
  kind: "prune" | "summary" | "digest";
  throughSeq: number;
  body: string;
  tokensBefore: number;
  tokensAfter: number;
}

const { placeholder } = sql;

/** The verbs of one step. All are fenced by the claim; messages are also fenced by triggers of the database. */
export function logVerbs(context: StoreContext) {
  const { db, write, now } = context;
  const statements = prepareStatements(context);

  function appendMessage(claim: Claim, message: NewMessage): void {
    statements.insertMessage.run({
      ...message,
      runId: claim.runId,
      epoch: claim.epoch,
      ordinal: message.ordinal ?? null,
      at: now(),
    });
  }

  function advance(
    claim: Claim,
    facts: { seq: number; steps: number; activeMs: number; usage?: Usage | undefined },
  ): void {
    const result = statements.advance.run({
      ...claim,
      now: now(),
      seq: facts.seq,
      steps: facts.steps,
      activeMs: facts.activeMs,
      promptTokens: facts.usage?.promptTokens ?? 0,
      completionTokens: facts.usage?.completionTokens ?? 0,
      cachedTokens: facts.usage?.cachedTokens ?? 0,
    });
    requireOwned(result, claim);
  }

  function settleModelCall(claim: Claim, settled: SettledModelCall): void {
    statements.settleModelCall.run({
      runId: claim.runId,
      n: settled.n,
      ...settled.usage,
      responseId: settled.responseId,
      now: now(),
    });
  }

  return {
    /**
     * Before a request: limits were checked, the request is recorded as sent.
     * Returns what was asked of the run meanwhile.
     */
    plan(
      claim: Claim,
      call: ModelCallPlan,
      activeMs: number,
    ): Promise<{ cancelAt: number | null; pauseAt: number | null }> {
      return write(() => {
        const asked = statements.touch.get({ ...claim, now: now(), activeMs });
        if (!asked) requireOwned({ changes: 0 }, claim);
        statements.insertModelCall.run({ ...call, runId: claim.runId, epoch: claim.epoch, startedAt: now() });
        return { cancelAt: asked?.cancelAt ?? null, pauseAt: asked?.pauseAt ?? null };
      });
    },

    /** The reply as it came, its calls as planned, and what it cost: one commit. */
    appendReply(
      claim: Claim,
      reply: NewMessage,
      facts: { calls: PlannedCall[]; settled: SettledModelCall; activeMs: number },
    ): Promise<void> {
      return write(() => {
        const { usage } = facts.settled;
        advance(claim, { seq: reply.seq, steps: reply.step, activeMs: facts.activeMs, usage });
        appendMessage(claim, reply);
        for (const call of facts.calls) {
          statements.insertCall.run({ ...call, runId: claim.runId, step: reply.step, epoch: claim.epoch });
        }
        settleModelCall(claim, facts.settled);
      });
    },

    /** A message that no call or request hangs on: the first rows, notes. `steps` is how many are complete. */
    appendMessage(claim: Claim, message: NewMessage, activeMs: number): Promise<void> {
      return write(() => {
        advance(claim, { seq: message.seq, steps: message.step, activeMs });
        appendMessage(claim, message);
      });
    },

    /** The start row of a call that must not simply be repeated: committed before it runs. */
    startCall(claim: Claim, call: { step: number; ordinal: number }): Promise<void> {
      return write(() => {
        requireOwned({ changes: statements.checkOwned.get({ ...claim, now: now() }) ? 1 : 0 }, claim);
        statements.startCall.run({ ...call, runId: claim.runId, epoch: claim.epoch, now: now() });
      });
    },

    /** One result, linked to its call. */
    appendResult(
      claim: Claim,
      result: NewMessage & { ordinal: number },
      facts: { state: CallState; note: string | null; activeMs: number },
    ): Promise<void> {
      return write(() => {
        advance(claim, { seq: result.seq, steps: result.step, activeMs: facts.activeMs });
        appendMessage(claim, result);
        statements.endCall.run({
          runId: claim.runId,
          step: result.step,
          ordinal: result.ordinal,
          state: facts.state,
          note: facts.note,
          resultSeq: result.seq,
          now: now(),
        });
      });
    },

    /** A request that brought no reply. */
    failModelCall(claim: Claim, call: { n: number; error: string }): Promise<void> {
      return write(() => {
        requireOwned({ changes: statements.checkOwned.get({ ...claim, now: now() }) ? 1 : 0 }, claim);
        statements.failModelCall.run({ ...call, runId: claim.runId, now: now() });
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
        const usage = settled?.usage;
        const result = statements.spend.run({
          ...claim,
          now: now(),
          activeMs,
          promptTokens: usage?.promptTokens ?? 0,
          completionTokens: usage?.completionTokens ?? 0,
          cachedTokens: usage?.cachedTokens ?? 0,
        });
        requireOwned(result, claim);
        if (settled) settleModelCall(claim, settled);
        db.insert(compactions)
          .values({ ...compaction, runId: claim.runId, modelCall: settled?.n ?? null, at: now() })
          .run();
      });
    },
  };
}

function prepareStatements({ db }: StoreContext) {
  const spent = {
    activeMs: sql`${placeholder("activeMs")}`,
    promptTokens: sql`${runs.promptTokens} + ${placeholder("promptTokens")}`,
    completionTokens: sql`${runs.completionTokens} + ${placeholder("completionTokens")}`,
    cachedTokens: sql`${runs.cachedTokens} + ${placeholder("cachedTokens")}`,
  };
  const thisModelCall = and(eq(modelCalls.runId, placeholder("runId")), eq(modelCalls.n, placeholder("n")));
  const thisCall = and(
    eq(calls.runId, placeholder("runId")),
    eq(calls.step, placeholder("step")),
    eq(calls.ordinal, placeholder("ordinal")),
  );
  return {
    checkOwned: db.select({ id: runs.id }).from(runs).where(isOwned()).prepare(),
    touch: db
      .update(runs)
      .set({ activeMs: spent.activeMs })
      .where(isOwned())
      .returning({ cancelAt: runs.cancelAt, pauseAt: runs.pauseAt })
      .prepare(),
    spend: db.update(runs).set(spent).where(isOwned()).prepare(),
    advance: db
      .update(runs)
      .set({ ...spent, seq: sql`${placeholder("seq")}`, steps: sql`${placeholder("steps")}` })
      .where(and(isOwned(), sql`${runs.seq} = ${placeholder("seq")} - 1`))
      .prepare(),
    insertMessage: db
      .insert(messages)
      .values({
        runId: placeholder("runId"),
        seq: placeholder("seq"),
        step: placeholder("step"),
        epoch: placeholder("epoch"),
        kind: placeholder("kind"),
        ordinal: placeholder("ordinal"),
        body: placeholder("body"),
        tokens: placeholder("tokens"),
        at: placeholder("at"),
      })
      .prepare(),
    insertModelCall: db
      .insert(modelCalls)
      .values({
        runId: placeholder("runId"),
        n: placeholder("n"),
        step: placeholder("step"),
        epoch: placeholder("epoch"),
        purpose: placeholder("purpose"),
        model: placeholder("model"),
        state: "sent",
        startedAt: placeholder("startedAt"),
      })
      .prepare(),
    settleModelCall: db
      .update(modelCalls)
      .set({
        state: "done",
        promptTokens: sql`${placeholder("promptTokens")}`,
        completionTokens: sql`${placeholder("completionTokens")}`,
        cachedTokens: sql`${placeholder("cachedTokens")}`,
        reasoningTokens: sql`${placeholder("reasoningTokens")}`,
        responseId: sql`${placeholder("responseId")}`,
        endedAt: sql`${placeholder("now")}`,
      })
      .where(thisModelCall)
      .prepare(),
    failModelCall: db
      .update(modelCalls)
      .set({ state: "failed", error: sql`${placeholder("error")}`, endedAt: sql`${placeholder("now")}` })
      .where(thisModelCall)
      .prepare(),
    insertCall: db
      .insert(calls)
      .values({
        runId: placeholder("runId"),
        step: placeholder("step"),
        ordinal: placeholder("ordinal"),
        epoch: placeholder("epoch"),
        origin: "model",
        tool: placeholder("tool"),
        class: placeholder("class"),
        state: "planned",
        providerId: placeholder("wireId"),
      })
      .prepare(),
    startCall: db
      .update(calls)
      .set({
        state: "started",
        epoch: sql`${placeholder("epoch")}`,
        startedAt: sql`${placeholder("now")}`,
      })
      .where(thisCall)
      .prepare(),
    endCall: db
      .update(calls)
      .set({
        state: sql`${placeholder("state")}`,
        note: sql`${placeholder("note")}`,
        resultSeq: sql`${placeholder("resultSeq")}`,
        endedAt: sql`${placeholder("now")}`,
      })
      .where(thisCall)
      .prepare(),
  };
}
