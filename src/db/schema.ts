import { sql } from "drizzle-orm";
import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import type { Reason, Status, WaitKind } from "../outcome.ts";

// Instants are epoch milliseconds, money is micro-dollars, JSON is text. The columns' meaning is in ARCHITECTURE.md.
// Triggers and WITHOUT ROWID cannot be said here; they are in the custom migration.

export const meta = sqliteTable("meta", {
  key: text("key").primaryKey(),
  value: text("value").notNull(),
});

export const batches = sqliteTable("batches", {
  id: text("id").primaryKey(),
  name: text("name").unique(),
  spec: text("spec"),
  createdAt: integer("created_at").notNull(),
  pausedAt: integer("paused_at"),
  maxRunning: integer("max_running"),
  lastClaimAt: integer("last_claim_at").notNull().default(0),
});

export const blobs = sqliteTable("blobs", {
  hash: text("hash").primaryKey(),
  body: text("body").notNull(),
});

export const workers = sqliteTable("workers", {
  id: text("id").primaryKey(),
  host: text("host").notNull(),
  bootId: text("boot_id"),
  pidNamespace: text("pid_namespace"),
  pid: integer("pid").notNull(),
  startTicks: text("start_ticks"),
  version: text("version").notNull(),
  leaseUntil: integer("lease_until").notNull(),
  drainAt: integer("drain_at"),
  startedAt: integer("started_at").notNull(),
  stoppedAt: integer("stopped_at"),
  detail: text("detail"),
});

export const runs = sqliteTable(
  "runs",
  {
    id: text("id").primaryKey(),
    batchId: text("batch_id")
      .notNull()
      .references(() => batches.id),
    key: text("key"),
    attempt: integer("attempt").notNull().default(1),
    superseded: integer("superseded").notNull().default(0),
    origin: text("origin").$type<"retry" | "fork" | "continue">(),
    originRunId: text("origin_run_id"),
    originSeq: integer("origin_seq"),
    spec: text("spec").notNull(),
    specHash: text("spec_hash").notNull(),
    promptHash: text("prompt_hash").references(() => blobs.hash),
    repo: text("repo"),
    lane: text("lane"),
    model: text("model"),
    priority: integer("priority").notNull().default(0),
    status: text("status").$type<Status>().notNull().default("queued"),
    reason: text("reason").$type<Reason>(),
    waitKind: text("wait_kind").$type<WaitKind>(),
    waitNote: text("wait_note"),
    wakeAt: integer("wake_at"),
    ready: integer("ready").notNull().default(1),
    epoch: integer("epoch").notNull().default(0),
    ownerId: text("owner_id").references(() => workers.id),
    generation: integer("generation").notNull().default(1),
    published: integer("published").notNull().default(0),
    seq: integer("seq").notNull().default(0),
    steps: integer("steps").notNull().default(0),
    strikes: integer("strikes").notNull().default(0),
    claimSeq: integer("claim_seq").notNull().default(0),
    cancelAt: integer("cancel_at"),
    pauseAt: integer("pause_at"),
    activeMs: integer("active_ms").notNull().default(0),
    promptTokens: integer("prompt_tokens").notNull().default(0),
    completionTokens: integer("completion_tokens").notNull().default(0),
    cachedTokens: integer("cached_tokens").notNull().default(0),
    costMicro: integer("cost_micro").notNull().default(0),
    unpricedCalls: integer("unpriced_calls").notNull().default(0),
    /** Reserved by requests that nobody counted: they may have been used. */
    uncountedTokens: integer("uncounted_tokens").notNull().default(0),
    baseCommit: text("base_commit"),
    headCommit: text("head_commit"),
    branch: text("branch"),
    tree: text("tree"),
    outcome: text("outcome"),
    createdAt: integer("created_at").notNull(),
    startedAt: integer("started_at"),
    finishedAt: integer("finished_at"),
  },
  (t) => [
    uniqueIndex("runs_key").on(t.batchId, t.key).where(sql`key IS NOT NULL AND superseded = 0`),
    index("runs_ready").on(t.batchId, sql`priority DESC`, t.id).where(sql`status = 'queued' AND ready = 1`),
    index("runs_behind").on(t.lane, sql`priority DESC`, t.id).where(sql`status = 'queued' AND ready = 0`),
    // Who holds a lane: at most one run in place a directory. Null lanes, nearly all, cost nothing.
    index("runs_lane").on(t.lane).where(sql`lane IS NOT NULL AND ready = 1 AND finished_at IS NULL`),
    index("runs_running").on(t.ownerId, t.lane).where(sql`status = 'running'`),
    index("runs_wake").on(t.wakeAt).where(sql`status = 'waiting' AND wake_at IS NOT NULL`),
    index("runs_counts").on(t.batchId, t.status, t.reason).where(sql`superseded = 0`),
  ],
);

export const messages = sqliteTable(
  "messages",
  {
    id: integer("id").primaryKey(),
    runId: text("run_id")
      .notNull()
      .references(() => runs.id, { onDelete: "cascade" }),
    seq: integer("seq").notNull(),
    step: integer("step").notNull(),
    epoch: integer("epoch").notNull(),
    kind: text("kind").$type<MessageKind>().notNull(),
    ordinal: integer("ordinal"),
    body: text("body").notNull(),
    tokens: integer("tokens").notNull(),
    at: integer("at").notNull(),
  },
  (t) => [uniqueIndex("messages_run_seq").on(t.runId, t.seq)],
);
export type MessageKind = "system" | "task" | "reply" | "result" | "note";

const runReference = () =>
  text("run_id")
    .notNull()
    .references(() => runs.id, { onDelete: "cascade" });

export const modelCalls = sqliteTable(
  "model_calls",
  {
    runId: runReference(),
    n: integer("n").notNull(),
    step: integer("step").notNull(),
    epoch: integer("epoch").notNull(),
    purpose: text("purpose").$type<"step" | "summary">().notNull(),
    model: text("model").notNull(),
    state: text("state").$type<"sent" | "done" | "failed" | "lost">().notNull(),
    reservedMicro: integer("reserved_micro"),
    reservedTokens: integer("reserved_tokens"),
    costMicro: integer("cost_micro"),
    promptTokens: integer("prompt_tokens"),
    completionTokens: integer("completion_tokens"),
    cachedTokens: integer("cached_tokens"),
    reasoningTokens: integer("reasoning_tokens"),
    error: text("error"),
    responseId: text("response_id"),
    startedAt: integer("started_at").notNull(),
    endedAt: integer("ended_at"),
  },
  (t) => [primaryKey({ columns: [t.runId, t.n] })],
);

export const calls = sqliteTable(
  "calls",
  {
    runId: runReference(),
    step: integer("step").notNull(),
    ordinal: integer("ordinal").notNull(),
    epoch: integer("epoch").notNull(),
    origin: text("origin").$type<"model" | "pawl">().notNull(),
    tool: text("tool").notNull(),
    class: text("class").notNull(),
    state: text("state").$type<CallState>().notNull(),
    providerId: text("provider_id"),
    resultSeq: integer("result_seq"),
    decision: text("decision"),
    decidedBy: text("decided_by"),
    decidedAt: integer("decided_at"),
    expiresAt: integer("expires_at"),
    note: text("note"),
    startedAt: integer("started_at"),
    endedAt: integer("ended_at"),
  },
  (t) => [
    primaryKey({ columns: [t.runId, t.step, t.ordinal] }),
    index("calls_asked").on(t.expiresAt).where(sql`state = 'asked'`),
  ],
);
export type CallState = "planned" | "asked" | "started" | "done" | "denied" | "interrupted";

export const snapshots = sqliteTable(
  "snapshots",
  {
    runId: runReference(),
    seq: integer("seq").notNull(),
    tree: text("tree").notNull(),
    at: integer("at").notNull(),
  },
  (t) => [primaryKey({ columns: [t.runId, t.seq] })],
);

export const compactions = sqliteTable(
  "compactions",
  {
    runId: runReference(),
    n: integer("n").notNull(),
    kind: text("kind").$type<"prune" | "summary" | "digest">().notNull(),
    throughSeq: integer("through_seq").notNull(),
    body: text("body").notNull(),
    modelCall: integer("model_call"),
    tokensBefore: integer("tokens_before").notNull(),
    tokensAfter: integer("tokens_after").notNull(),
    at: integer("at").notNull(),
  },
  (t) => [primaryKey({ columns: [t.runId, t.n] })],
);

export const events = sqliteTable(
  "events",
  {
    id: integer("id").primaryKey(),
    at: integer("at").notNull(),
    runId: text("run_id").references(() => runs.id, { onDelete: "cascade" }),
    batchId: text("batch_id"),
    workerId: text("worker_id"),
    epoch: integer("epoch"),
    kind: text("kind").notNull(),
    data: text("data"),
  },
  (t) => [index("events_run").on(t.runId, t.id)],
);

/** What a budget allows and what of it is taken: reserved by requests that are under way, and spent. Null: no bound. */
export const budgets = sqliteTable("budgets", {
  /** `batch:<id>`, or `day:<date>`, the date in UTC. */
  scope: text("scope").primaryKey(),
  capMicro: integer("cap_micro"),
  usedMicro: integer("used_micro").notNull().default(0),
  capTokens: integer("cap_tokens"),
  usedTokens: integer("used_tokens").notNull().default(0),
  /** When a request did not fit though no other one was under way: since then nothing new is begun on it. */
  exhaustedAt: integer("exhausted_at"),
});

/** What all workers know of a model at an account: whether and when it may be asked. */
export const gates = sqliteTable("gates", {
  /** `<origin>`, with a hash of the key where there is one; of a model also its name. */
  name: text("name").primaryKey(),
  /** Why nothing may be sent; null: it is open. */
  reason: text("reason").$type<GateReason>(),
  /** In the provider's words. */
  note: text("note"),
  /** Null with a reason: until people say so. */
  pausedUntil: integer("paused_until"),
  /** Requests at once; null: no bound is known. */
  concurrency: integer("concurrency"),
  /** Least time from one request to the next, learned; 0: none. */
  intervalMs: integer("interval_ms").notNull().default(0),
  nextAt: integer("next_at").notNull().default(0),
  /** Replies since the concurrency grew. */
  served: integer("served").notNull().default(0),
  /** Refusals in a row, and when the last one came. */
  refusals: integer("refusals").notNull().default(0),
  refusedAt: integer("refused_at").notNull().default(0),
});
export type GateReason = "busy" | "quota" | "auth" | "failing";

/** Requests that a worker has under way; those of a worker without a lease count no more. */
export const gateSlots = sqliteTable(
  "gate_slots",
  {
    name: text("name").notNull(),
    workerId: text("worker_id")
      .notNull()
      .references(() => workers.id, { onDelete: "cascade" }),
    held: integer("held").notNull(),
  },
  (t) => [primaryKey({ columns: [t.name, t.workerId] })],
);
