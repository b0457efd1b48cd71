import { setTimeout as sleep } from "node:timers/promises";
import { reportStatus, type StatusReport } from "../report/status.ts";
import { type Look, openLook } from "./look.ts";
import { note, print, printJson } from "./output.ts";

const watchPollMs = 250;

interface StatusOptions {
  batch?: string;
  watch?: boolean;
  exitCode?: boolean;
  json?: boolean;
}

/** `pawl status`: how many runs there are, by status and reason; with `--watch` a document for each change. */
export async function status(options: StatusOptions): Promise<void> {
  let look = await openLook();
  let last = "";
  for (;;) {
    const report = await reportStatus(look.store, { dataDir: look.paths.dataDir, batch: options.batch });
    const text = JSON.stringify(report);
    if (text !== last && options.json) printJson(report);
    else if (text !== last) show(report, options);
    last = text;
    if (options.exitCode && (report.byStatus.failed ?? 0) > 0) process.exitCode = 1;
    if (!options.watch) break;
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

function show(report: StatusReport, options: StatusOptions): void {
  const counts = Object.entries(report.byStatus).filter(([, count]) => count > 0);
  const reasons = Object.entries(report.byReason);
  const of = options.batch === undefined ? "" : ` of batch ${options.batch}`;
  print(
    `${report.total} runs${of}${counts.length > 0 ? `: ${counts.map(([name, count]) => `${count} ${name}`).join(", ")}` : ""}`,
  );
  if (reasons.length > 0) print(`ended: ${reasons.map(([name, count]) => `${count} ${name}`).join(", ")}`);
  const { promptTokens, completionTokens, cachedTokens } = report.usage;
  print(`tokens: ${promptTokens} in (${cachedTokens} cached), ${completionTokens} out`);
  for (const worker of report.workers) {
    print(`worker ${worker.id} on ${worker.host}, pid ${worker.pid}: ${worker.running} running`);
  }
  if (report.workers.length === 0 && (report.byStatus.queued ?? 0) > 0)
    note("no worker is alive: start one with pawl worker");
  print(`data: ${report.dataDir}`);
}
