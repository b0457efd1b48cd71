import { ConfigError } from "../errors.ts";
import { statuses } from "../outcome.ts";
import { phaseOf, type RunReport, reportRun } from "../report/run-view.ts";
import { clip, copied, displayWidth, duration, flat } from "../report/text.ts";
import { describeCost } from "../report/usage.ts";
import { openLook } from "./look.ts";
import { note, paint, print, printJson, table } from "./output.ts";

const headings = ["RUN", "KEY", "BATCH", "STATUS", "REASON", "STEPS", "TIME", "COST"];
const maxNameColumns = 24;
/** Of the answer or error; less where the terminal is narrower. */
const resultColumns = { most: 60, least: 10 };

/** `pawl list`: a line a run, newest first. */
export async function list(options: {
  batch?: string;
  status?: string;
  limit?: string;
  json?: boolean;
}): Promise<void> {
  const status = statuses.find((each) => each === options.status);
  if (options.status !== undefined && !status) {
    throw new ConfigError(`expected --status to be one of ${statuses.join(", ")}, got ${options.status}`);
  }
  const limit = options.limit === undefined ? undefined : Number(options.limit);
  if (limit !== undefined && !(Number.isInteger(limit) && limit > 0)) {
    throw new ConfigError(`expected --limit to be a whole number above 0, got ${options.limit}`);
  }
  const { paths, store } = await openLook();
  const rows = store ? await store.loadRuns({ batch: options.batch, status, limit }) : [];
  const runs: Listed[] = [];
  for (const row of rows) {
    const report = reportRun(row, paths, store ? await phaseOf(store, row) : null);
    runs.push({ report, copiedSteps: row.copiedSteps });
  }
  await store?.close();
  if (options.json) for (const { report } of runs) printJson(report);
  else if (runs.length === 0) note(`no runs in ${paths.dataDir}`);
  else print(describe(runs).join("\n"));
}

interface Listed {
  report: RunReport;
  copiedSteps: number;
}

/** The table; what ends a line takes the room that is left. */
function describe(runs: Listed[]): string[] {
  const [heading = "", ...lines] = table(headings, runs.map(cells));
  const width = 2 + [heading, ...lines].reduce((widest, line) => Math.max(widest, displayWidth(line)), 0);
  const room = process.stdout.isTTY ? process.stdout.columns - width : resultColumns.most;
  const columns = Math.max(resultColumns.least, Math.min(resultColumns.most, room));
  return [
    paint("bold", `${heading}${" ".repeat(width - displayWidth(heading))}RESULT`),
    ...lines.map((line, index) => {
      const text = clip(flat(runs[index]?.report.error ?? runs[index]?.report.result), columns);
      return `${line}${" ".repeat(width - displayWidth(line))}${text}`.trimEnd();
    }),
  ];
}

function cells({ report: run, copiedSteps }: Listed): string[] {
  const end = run.finishedAt === null ? Date.now() : Date.parse(run.finishedAt);
  return [
    run.id,
    clip(flat(run.key), maxNameColumns),
    clip(flat(run.batch), maxNameColumns),
    describeStatus(run),
    run.reason ?? "",
    `${run.steps}/${run.maxSteps}${copied(copiedSteps)}`,
    run.startedAt === null ? "" : duration(end - Date.parse(run.startedAt)),
    run.usage.costUsd === null || run.usage.promptTokens === 0 ? "" : describeCost(run.usage),
  ];
}

function describeStatus({ status, phase, waiting }: RunReport): string {
  if (waiting) return `waiting (${waiting.kind})`;
  return status === "running" && phase ? `running (${phase})` : status;
}
