import type { Claim } from "../db/claim.ts";
import type { NewMessage } from "../db/log.ts";
import type { CallState, MessageKind } from "../db/schema.ts";
import type { Store } from "../db/store.ts";
import type { LogTail } from "../db/tail.ts";
import { failpoint } from "../failpoint.ts";
import type { BudgetWish } from "../limits/budget.ts";
import type { Price } from "../limits/prices.ts";
import { type ChatMessage, type ModelReply, noUsage } from "../model/model.ts";
import { estimateMessageTokens, estimateTokens, messageOverheadTokens } from "../model/tokens.ts";
import { type Redact, redactedMark } from "../redact.ts";
import { type Ended, openLedger } from "./ledger.ts";
import { type Measurement, measureTail } from "./measurement.ts";
import {
  applyCompaction,
  applyMessage,
  applyOpenCalls,
  applyPrompt,
  emptyState,
  type PendingCall,
  type Prompt,
  type RunState,
} from "./next-action.ts";
import type { Protocol } from "./protocols/protocol.ts";
import { findRedacted, restoreArguments } from "./redacted-calls.ts";
import { estimateWindow } from "./window.ts";

const unanswered: Ended = { usage: noUsage, responseId: null };

/**
 * A run's log as its owner sees it: the folded state, and the verbs that append to both the state and the database.
 * The verbs return at once; what they wrote is on disk when `committed()` resolves. Law 3 in one sentence: whoever is
 * about to do something outside of the database awaits `committed()` first. So the result of one step and the plan of
 * the next share a commit.
 */
export type RunLog = ReturnType<typeof openRunLog>;

export interface RunLogOptions {
  store: Store;
  claim: Claim;
  protocol: Protocol;
  /** Tokens a request may have. */
  budgetTokens?: number;
  /** Takes secrets out of what is recorded; what the model is sent is made from that. */
  redact?: Redact;
  /** What a model costs; left out where nobody knows any price. */
  priceOf?(model: string): Price | null;
  /** Active time so far, over all owners, in milliseconds. */
  activeMs(): number;
}

export function openRunLog(options: RunLogOptions) {
  const { store, claim, protocol, activeMs, redact = (text) => text } = options;
  const state: RunState = emptyState(options.budgetTokens);
  let outstanding: Promise<unknown>[] = [];
  let measured: Measurement | null = null;
  let tree: string | null = null;
  /** What the model must be told, and the workspace that it speaks of. */
  let notice: { text: string; tree: string | null } | null = null;
  const ledger = openLedger((model) => options.priceOf?.(model) ?? null);
  /** Whether the model was shown the mark of a secret, which it may send back. */
  let isMarked = false;

  function write<T>(verb: Promise<T>): Promise<T> {
    // Kept for `committed()`; until somebody awaits that, a rejection must not count as unhandled.
    verb.catch(() => {});
    outstanding.push(verb);
    return verb;
  }

  function next(kind: MessageKind, step: number, body: unknown, contentTokens?: number) {
    const original = JSON.stringify(body);
    const text = redact(original);
    isMarked ||= text !== original;
    const tokens = messageOverheadTokens + (contentTokens ?? estimateTokens(text));
    return { seq: state.seq + 1, step, kind, body: text, tokens };
  }

  function apply(message: NewMessage, ordinal: number | null = null): void {
    applyMessage(state, { ...message, ordinal, epoch: claim.epoch }, protocol);
  }

  /** A tree to record with the next message, where it is not the one recorded last. */
  function news(found: string | null): string | undefined {
    if (found === null || found === tree) return undefined;
    tree = found;
    return found;
  }

  function append(message: NewMessage): void {
    write(store.appendMessage(claim, message, activeMs()));
    apply(message);
  }

  return {
    state,

    /** Folds what earlier owners wrote; `lastTree` is the newest snapshot among it. */
    load(tail: LogTail, lastTree: string | null = null): void {
      tree = lastTree;
      if (tail.prompt !== null) applyPrompt(state, JSON.parse(tail.prompt) as Prompt, protocol);
      for (const row of tail.messages) applyMessage(state, row, protocol);
      isMarked = tail.messages.some(({ body }) => body.includes(redactedMark));
      findRedacted(state.pending);
      if (tail.compaction) applyCompaction(state, tail.compaction);
      state.copiedSteps = tail.copiedSteps;
      state.compactions = tail.compactions;
      state.modelCalls = tail.lastModelCall?.n ?? 0;
      applyOpenCalls(state, tail.openCalls);
      measured = measureTail(state, tail);
    },

    /** The first two messages, where they are not there yet; the prompt itself was stored under `hash` by the verb `begin`. */
    start(prompt: Prompt, hash: string, task: ChatMessage): void {
      applyPrompt(state, prompt, protocol);
      if (!state.system)
        append(next("system", 0, { role: "system", prompt: hash }, estimateTokens(prompt.system)));
      if (!state.task) append(next("task", 0, task, estimateMessageTokens(task) - messageOverheadTokens));
    },

    /** Records that a request is about to be sent, unless `refusal` then says that a budget forbids it; gives its number. */
    plan(purpose: "step" | "summary", model: string, budget?: BudgetWish): number {
      const n = state.modelCalls + 1;
      state.modelCalls = n;
      ledger.begin(model);
      const step = purpose === "step" ? state.steps + 1 : state.steps;
      const call = { n, step, purpose, model, ...(budget && { budget }) };
      write(
        store.plan(claim, call, activeMs()).then((answer) => {
          if (!ledger.record(answer)) state.modelCalls = n - 1;
        }),
      );
      return n;
    },

    /** The reply as it came, with its tool calls. */
    appendReply(n: number, reply: ModelReply, classOf: (tool: string) => string): void {
      const before = estimateWindow(state);
      const promptTokens = reply.usage.promptTokens;
      measured = promptTokens === null ? null : { promptTokens, estimatedTokens: before };
      const finish = reply.finishReason === null ? {} : { finish_reason: reply.finishReason };
      const message = next("reply", state.steps + 1, { ...reply.message, ...finish });
      apply(message);
      const place = { step: state.steps, tools: state.prompt.tools };
      if (isMarked) restoreArguments(state.pending, protocol.readReply(reply, place));
      const calls = state.pending.map(({ ordinal, name, wireId }) => ({
        ordinal,
        tool: name,
        class: classOf(name),
        wireId,
      }));
      const facts = { calls, settled: ledger.settle(n, reply), activeMs: activeMs() };
      write(store.appendReply(claim, message, facts).then(() => failpoint("reply.committed")));
    },

    /** A request that failed; `reply` is one that came and was of no use, or `unbilled`. */
    failModelCall(n: number, error: string, reply: Ended = unanswered): void {
      write(store.failModelCall(claim, { ...ledger.settle(n, reply), error: redact(error) }, activeMs()));
    },

    /** The start row of a call that must not simply be repeated. */
    startCall({ step, ordinal }: PendingCall): void {
      write(store.startCall(claim, { step, ordinal }));
    },

    appendResult(
      call: PendingCall,
      result: {
        content: string;
        isError: boolean;
        note: string | null;
        state: CallState;
        endsRun?: boolean;
        /** The workspace after it, recorded with it where that is news. */
        tree?: string | null;
      },
    ): void {
      const content = notice === null ? result.content : `${notice.text}\n\n${result.content}`;
      const body = protocol.renderResult({ wireId: call.wireId, content, isError: result.isError });
      const ending = result.endsRun ? { ends_run: result.content } : {};
      const message = {
        ...next("result", call.step, { ...body, ...ending }),
        ordinal: call.ordinal,
        tree: news(result.tree ?? notice?.tree ?? null),
      };
      notice = null;
      write(
        store
          .appendResult(claim, message, { state: result.state, note: result.note, activeMs: activeMs() })
          .then(() => failpoint("result.committed")),
      );
      apply(message, call.ordinal);
    },

    /** Tells the model something outside of a call; `found` is the workspace that it speaks of. */
    appendNote(text: string, found: string | null = null): void {
      append({ ...next("note", state.steps, protocol.renderNote(text)), tree: news(found) });
    },

    /** Tells it with the next result: between a call and its result no note may stand. */
    addNotice(text: string, found: string | null): void {
      notice = { text: notice === null ? text : `${notice.text}\n\n${text}`, tree: found };
    },

    /** What stands for the messages up to `throughSeq`; `answered` is the request that wrote it, if one did. */
    compact(
      compaction: { kind: "summary" | "digest"; throughSeq: number; body: string },
      answered: { n: number; reply: ModelReply } | null,
    ): void {
      const tokensBefore = estimateWindow(state);
      const body = redact(compaction.body);
      state.compactions += 1;
      applyCompaction(state, { throughSeq: compaction.throughSeq, body });
      measured = null;
      const row = {
        ...compaction,
        body,
        n: state.compactions,
        modelCall: state.modelCalls || null,
        tokensBefore,
        tokensAfter: estimateWindow(state),
      };
      const settled = answered && ledger.settle(answered.n, answered.reply);
      write(store.compact(claim, row, settled, activeMs()));
    },

    /** Resolves when all of the above is on disk; throws LeaseLostError if the run belongs to somebody else. */
    async committed(): Promise<void> {
      const verbs = outstanding;
      outstanding = [];
      await Promise.all(verbs);
    },

    /**
     * Throws LeaseLostError if the run belongs to somebody else. For whoever is about to act: a process that was stopped
     * since its last commit wakes here, and what it was about to do is done by another or no longer wanted.
     */
    confirmOwned: (): Promise<void> => store.confirmOwned(claim),

    /** The newest snapshot of the workspace. */
    tree: (): string | null => tree,

    asked: ledger.asked,
    lookAsked: async (): Promise<void> => {
      ledger.look((await store.loadAsked(claim.workerId)).find(({ id }) => id === claim.runId));
    },
    refusal: ledger.refusal,
    measured: (): Measurement | null => measured,
  };
}
