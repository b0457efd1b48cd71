import { ConfigError } from "../errors.ts";
import { statuses } from "../outcome.ts";
import { phaseOf, type RunReport, reportRun } from "../report/run-view.ts";
import { openLook } from "./look.ts";
import { duration, oneLine, print, printJson, table } from "./output.ts";

/** `pawl list`: a line a run, newest first. */
export async function list(options: {
  batch?: string;
  status?: string;
  limit?: string;
  json?: boolean;
}): Promise<void> {
  const { paths, store } = await openLook();
  const status = statuses.find((each) => each === options.status);
  if (options.status !== undefined && !status) {
    throw new ConfigError(`expected --status to be one of ${statuses.join(", ")}, got ${options.status}`);
  }
  const limit = options.limit === undefined ? undefined : Number(options.limit);
  if (limit !== undefined && !(Number.isInteger(limit) && limit > 0)) {
    throw new ConfigError(`expected --limit to be a whole number above 0, got ${options.limit}`);
  }
  if (!store) return;
  const rows = await store.loadRuns({ batch: options.batch, status, limit });
  const runs = await Promise.all(rows.map(async (row) => reportRun(row, paths, await phaseOf(store, row))));
  if (options.json) runs.forEach(printJson);
  else
    print(
      table(["RUN", "KEY", "BATCH", "STATUS", "REASON", "STEPS", "TIME", "RESULT"], runs.map(cells)).join(
        "\n",
      ),
    );
  await store.close();
}

function cells(run: RunReport): string[] {
  const end = run.finishedAt === null ? Date.now() : Date.parse(run.finishedAt);
  const time = run.startedAt === null ? "" : duration(end - Date.parse(run.startedAt));
  const status = run.waiting
    ? `waiting (${run.waiting.kind})`
    : run.phase && run.status === "running"
      ? run.phase
      : run.status;
  const text = oneLine(run.error ?? run.result ?? "", 60);
  return [
    run.id,
    oneLine(run.key ?? "", 24),
    run.batch ?? "",
    status,
    run.reason ?? "",
    `${run.steps}/${run.maxSteps}`,
    time,
    text,
  ];
}
