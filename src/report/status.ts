import { nothingUsed } from "../db/counts.ts";
import type { Store } from "../db/store.ts";
import { statuses } from "../outcome.ts";
import { isProvenDead, ownIdentity } from "../worker/identity.ts";
import { isoTime } from "./text.ts";
import { type BudgetReport, reportBudget, reportUsage, type UsageReport } from "./usage.ts";

/** `status --json`. */
export interface StatusReport {
  dataDir: string;
  total: number;
  byStatus: Record<string, number>;
  byReason: Record<string, number>;
  usage: UsageReport;
  /** Of the batches that have one, and of today. */
  budgets: BudgetReport[];
  /** What runs wait for, when the first of them goes on by itself, and what is said of it. */
  waiting: { kind: string; count: number; wakeAt: string | null; note: string | null }[];
  /** Models that nobody may ask at the moment: why, and until when; null until `pawl resume`. */
  gates: { model: string; reason: string; until: string | null; note: string | null }[];
  /** Those that are alive, as far as can be told from here. */
  workers: {
    id: string;
    host: string;
    pid: number;
    running: number;
    startedAt: string;
    leaseUntil: string;
    /** What people should know of it: that it takes nothing new, and why. */
    note: string | null;
  }[];
}

const nothing = { counts: [], usage: nothingUsed };

/** Counts of a batch, or of everything; `store` is null where nothing was ever enqueued. */
export async function reportStatus(
  store: Store | null,
  options: { dataDir: string; batch?: string | undefined },
): Promise<StatusReport> {
  const { counts, usage } = store ? await store.countRuns(options.batch) : nothing;
  const byStatus: Record<string, number> = Object.fromEntries(statuses.map((status) => [status, 0]));
  const byReason: Record<string, number> = {};
  let total = 0;
  for (const { status, reason, count } of counts) {
    total += count;
    byStatus[status] = (byStatus[status] ?? 0) + count;
    if (reason !== null) byReason[reason] = (byReason[reason] ?? 0) + count;
  }
  const self = ownIdentity();
  const now = store?.now() ?? 0;
  // A worker that was killed stays in the table until another one notices.
  const workers = (store ? await store.countOwned() : []).filter(
    (worker) => worker.leaseUntil > now && !isProvenDead(worker, self),
  );
  const waiting = (await store?.countWaiting(options.batch)) ?? [];
  const gates = (await store?.loadShutGates()) ?? [];
  return {
    dataDir: options.dataDir,
    total,
    byStatus,
    byReason,
    usage: reportUsage(usage),
    budgets: (store ? await store.loadBudgets(options.batch) : []).map(reportBudget),
    waiting: waiting.map(({ kind, wakeAt, ...rest }) => ({
      kind: kind ?? "",
      ...rest,
      wakeAt: isoTime(wakeAt),
    })),
    gates: gates.map(({ name, reason, pausedUntil, note }) => ({
      // The hash of the key is nothing that people know it by.
      model: name.replace(/#\S*/, ""),
      reason: reason ?? "",
      until: isoTime(pausedUntil),
      note,
    })),
    workers: workers.map(({ id, host, pid, running, startedAt, leaseUntil, detail }) => ({
      id,
      host,
      pid,
      running,
      startedAt: new Date(startedAt).toISOString(),
      leaseUntil: new Date(leaseUntil).toISOString(),
      note: detail,
    })),
  };
}
