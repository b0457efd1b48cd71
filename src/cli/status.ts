import { setTimeout as sleep } from "node:timers/promises";
import { reportStatus, type StatusReport } from "../report/status.ts";
import { counted, flat, localTime } from "../report/text.ts";
import { describeBudget, describeCost } from "../report/usage.ts";
import { type Look, openLook } from "./look.ts";
import { eraseLines, exitOnInterrupt, paint, print, printJson, type Style } from "./output.ts";

const watchPollMs = 250;

interface StatusOptions {
  batch?: string;
  watch?: boolean;
  exitCode?: boolean;
  json?: boolean;
}

/**
 * `pawl status`: how many runs there are, by status and reason; with `--watch` again whenever something changes, until it is
 * interrupted or, with `--exit-code`, until all have ended.
 */
export async function status(options: StatusOptions): Promise<void> {
  if (options.watch) exitOnInterrupt();
  const show = options.json ? showDocument() : showText(options);
  let look = await openLook();
  for (;;) {
    const report = await reportStatus(look.store, { dataDir: look.paths.dataDir, batch: options.batch });
    show(report);
    const { queued = 0, running = 0, waiting = 0, failed = 0 } = report.byStatus;
    if (options.exitCode) process.exitCode = failed > 0 ? 1 : 0;
    const hasEnded = report.total > 0 && queued + running + waiting === 0;
    if (!options.watch || (options.exitCode && hasEnded)) break;
    look = await nextChange(look);
  }
  await look.store?.close();
}

async function nextChange(look: Look): Promise<Look> {
  if (!look.store) {
    await sleep(watchPollMs);
    return openLook();
  }
  const seen = look.store.dataVersion();
  do await sleep(watchPollMs);
  while (look.store.dataVersion() === seen);
  return look;
}

/** A document for each change. A lease that was renewed is none. */
function showDocument(): (report: StatusReport) => void {
  let last = "";
  return (report) => {
    const text = JSON.stringify(report, (name, value) => (name === "leaseUntil" ? undefined : value));
    if (text !== last) printJson(report);
    last = text;
  };
}

/** At a terminal the newest text takes the place of the one before. */
function showText(options: StatusOptions): (report: StatusReport) => void {
  let last: string[] = [];
  return (report) => {
    const lines = describe(report, options);
    if (lines.join("\n") === last.join("\n")) return;
    if (last.length > 0) process.stdout.isTTY ? eraseLines(last.length) : print();
    for (const line of lines) print(line);
    last = lines;
  };
}

const styles: Record<string, Style> = {
  running: "cyan",
  waiting: "yellow",
  succeeded: "green",
  failed: "red",
};

function describe(report: StatusReport, options: StatusOptions): string[] {
  const counts = Object.entries(report.byStatus)
    .filter(([, count]) => count > 0)
    .map(([name, count]) => paint(styles[name] ?? "reset", `${count} ${name}`));
  const reasons = Object.entries(report.byReason).map(([name, count]) => `${count} ${name}`);
  const of = options.batch === undefined ? "" : ` of batch ${options.batch}`;
  const { promptTokens, completionTokens, cachedTokens } = report.usage;
  const cost = describeCost(report.usage);
  const isUnused = promptTokens + completionTokens === 0;
  const isStuck = report.workers.length === 0 && (report.byStatus.queued ?? 0) > 0;
  return [
    `${counted(report.total, "run")}${of}${counts.length > 0 ? `: ${counts.join(", ")}` : ""}`,
    ...(reasons.length > 0 ? [`ended   ${reasons.join(", ")}`] : []),
    `tokens  ${promptTokens} in (${cachedTokens} cached), ${completionTokens} out`,
    ...(cost === "" || isUnused ? [] : [`cost    ${cost}`]),
    ...report.budgets.map((budget) => `budget  ${flat(describeBudget(budget))}`),
    ...report.waiting
      .filter(({ kind }) => kind !== "paused")
      .map(({ kind, count, wakeAt, note }) => `waits   ${count} ${kind}${until(wakeAt)}: ${flat(note)}`),
    ...report.gates.map(
      ({ model, reason, until: at, note }) => `gate    ${model}: ${reason}${until(at)}: ${flat(note)}`,
    ),
    ...report.workers.map(
      ({ id, host, pid, running, note }) =>
        `worker  ${id} on ${host}, pid ${pid}: ${running} running${note === null ? "" : `; ${note}`}`,
    ),
    ...(isStuck ? ["worker  none is alive: start one with pawl worker"] : []),
    `data    ${report.dataDir}`,
  ];
}

function until(at: string | null): string {
  return at === null ? " until pawl resume" : ` until ${localTime(at)}`;
}
