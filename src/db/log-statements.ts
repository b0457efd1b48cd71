import { and, eq, sql } from "drizzle-orm";
import { hasBatchBudget, hasBudget, hasDayBudget } from "./budgets.ts";
import { isOwned } from "./fence.ts";
import type { SettledModelCall } from "./log.ts";
import { calls, compactions, messages, modelCalls, runs } from "./schema.ts";
import type { StoreContext } from "./store.ts";

const { placeholder } = sql;

/** The statements of the verbs in log.ts. */
export function prepareLogStatements({ db }: StoreContext) {
  const spent = {
    activeMs: sql`${placeholder("activeMs")}`,
    promptTokens: sql`${runs.promptTokens} + ${placeholder("promptTokens")}`,
    completionTokens: sql`${runs.completionTokens} + ${placeholder("completionTokens")}`,
    cachedTokens: sql`${runs.cachedTokens} + ${placeholder("cachedTokens")}`,
    uncountedTokens: sql`${runs.uncountedTokens} + ${placeholder("uncountedTokens")}`,
    costMicro: sql`${runs.costMicro} + ${placeholder("costMicro")}`,
    unpricedCalls: sql`${runs.unpricedCalls} + ${placeholder("unpricedCalls")}`,
  };
  const counted = {
    promptTokens: sql`${placeholder("promptTokens")}`,
    completionTokens: sql`${placeholder("completionTokens")}`,
    cachedTokens: sql`${placeholder("cachedTokens")}`,
    reasoningTokens: sql`${placeholder("reasoningTokens")}`,
    costMicro: sql`${placeholder("costMicro")}`,
    responseId: sql`${placeholder("responseId")}`,
    endedAt: sql`${placeholder("now")}`,
  };
  const openModelCall = and(
    eq(modelCalls.runId, placeholder("runId")),
    eq(modelCalls.n, placeholder("n")),
    sql`${modelCalls.state} = 'sent'`,
  );
  const openCall = and(
    eq(calls.runId, placeholder("runId")),
    eq(calls.step, placeholder("step")),
    eq(calls.ordinal, placeholder("ordinal")),
    sql`state IN ('planned', 'asked', 'started')`,
  );
  const isNext = and(isOwned(), sql`${runs.seq} = ${placeholder("seq")} - 1`);
  return {
    touch: db
      .update(runs)
      .set({ activeMs: spent.activeMs })
      .where(isOwned())
      .returning({
        cancelAt: runs.cancelAt,
        pauseAt: runs.pauseAt,
        batchId: runs.batchId,
        costMicro: runs.costMicro,
        usedTokens: sql<number>`${runs.promptTokens} + ${runs.completionTokens} + ${runs.uncountedTokens}`,
        hasBatchBudget,
        hasDayBudget,
      })
      .prepare(),
    spend: db.update(runs).set(spent).where(isOwned()).prepare(),
    advanceStep: db
      .update(runs)
      .set({
        ...spent,
        seq: sql`${placeholder("seq")}`,
        // Counted, not taken from the log: that of a fork counts on from steps that the run has not made.
        steps: sql`${runs.steps} + 1`,
      })
      .where(isNext)
      .prepare(),
    advance: db
      .update(runs)
      .set({ activeMs: spent.activeMs, seq: sql`${placeholder("seq")}` })
      .where(isNext)
      .prepare(),
    insertMessage: messageInsert({ db }),
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
        reservedMicro: placeholder("reservedMicro"),
        reservedTokens: placeholder("reservedTokens"),
        startedAt: placeholder("startedAt"),
      })
      .prepare(),
    settleModelCall: db
      .update(modelCalls)
      .set({ ...counted, state: "done" })
      .where(openModelCall)
      .returning({ startedAt: modelCalls.startedAt, hasBudget })
      .prepare(),
    failModelCall: db
      .update(modelCalls)
      .set({ ...counted, state: "failed", error: sql`${placeholder("error")}` })
      .where(openModelCall)
      .returning({ startedAt: modelCalls.startedAt, hasBudget })
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
    insertCompaction: db
      .insert(compactions)
      .values({
        runId: placeholder("runId"),
        n: placeholder("n"),
        kind: placeholder("kind"),
        throughSeq: placeholder("throughSeq"),
        body: placeholder("body"),
        modelCall: placeholder("modelCall"),
        tokensBefore: placeholder("tokensBefore"),
        tokensAfter: placeholder("tokensAfter"),
        at: placeholder("at"),
      })
      .prepare(),
    startCall: db
      .update(calls)
      .set({
        state: "started",
        epoch: sql`${placeholder("epoch")}`,
        startedAt: sql`${placeholder("now")}`,
      })
      .where(openCall)
      .prepare(),
    endCall: db
      .update(calls)
      .set({
        state: sql`${placeholder("state")}`,
        note: sql`${placeholder("note")}`,
        resultSeq: sql`${placeholder("resultSeq")}`,
        endedAt: sql`${placeholder("now")}`,
      })
      .where(openCall)
      .prepare(),
  };
}

/** Appends a row to a run's log. */
export function messageInsert({ db }: Pick<StoreContext, "db">) {
  return db
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
    .prepare();
}

/** What an ended request used and cost. */
export type Spent = Pick<SettledModelCall, "usage" | "charge">;

/** What an ended request adds to its run; nothing where there was none. */
export function sumsOf(spent: Spent | undefined) {
  const { promptTokens, completionTokens, cachedTokens } = spent?.usage ?? {};
  const costMicro = spent?.charge?.costMicro ?? null;
  return {
    promptTokens: promptTokens ?? 0,
    completionTokens: completionTokens ?? 0,
    cachedTokens: cachedTokens ?? 0,
    uncountedTokens: spent?.charge?.uncountedTokens ?? 0,
    costMicro: costMicro ?? 0,
    unpricedCalls: spent && costMicro === null ? 1 : 0,
  };
}
