import { realpathSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { loadConfig } from "../config.ts";
import { ConfigError } from "../errors.ts";
import { isTerminal } from "../outcome.ts";
import { openPawl, type Pawl, taskDefaults } from "../pawl.ts";
import { tasksFromFlags } from "../producer/new-task.ts";
import { exportMessages } from "../report/export.ts";
import { describeEntry, followRun } from "./logs.ts";
import { note, print, printJson } from "./output.ts";
import { onStopSignals, stderrProgress } from "./progress.ts";

type Options = Record<string, unknown> & {
  batch?: string;
  baseUrl?: string;
  save?: string;
  json?: boolean;
  repo?: string;
  dir?: string;
  continue?: string;
};

const watchPollMs = 250;

/** `pawl run`: one task, worked on here; steps on stderr, the answer on stdout. Ctrl-C leaves it resumable. */
export async function run(prompt: string, options: Options): Promise<void> {
  if (options.continue !== undefined)
    throw new ConfigError("--continue is not built yet: start a new run without it");
  const settings = options.baseUrl === undefined ? {} : { baseUrl: options.baseUrl };
  const cwd = process.cwd();
  const config = await loadConfig({ cwd, env: process.env, flags: settings });
  const flags = { ...options, prompt, ...choosePlace(options) };
  const tasks = tasksFromFlags({ flags, cwd, batch: options.batch ?? null, defaults: taskDefaults(config) });
  const pawl = await openPawl({ settings, logger: stderrProgress(config.logLevel, false) });
  try {
    const [created] = await pawl.enqueueParsed(tasks);
    if (!created) return;
    if (!created.created)
      note(
        `the key ${created.key} is taken by run ${created.id}${created.changed ? ", whose task differs" : ""}: going on with that run`,
      );
    await finishHere(pawl, created.id, options);
  } finally {
    await pawl.close();
  }
}

/** At a terminal the current folder, said first; elsewhere an empty one. */
function choosePlace(options: Options): { dir?: string } {
  if (options.repo !== undefined || options.dir !== undefined) return {};
  if (!process.stdin.isTTY || !process.stderr.isTTY) return {};
  const dir = realpathSync(process.cwd());
  note(`working in the current folder as it is: ${dir} (--repo works in an own clone)`);
  return { dir };
}

async function finishHere(pawl: Pawl, id: string, options: Options): Promise<void> {
  note(`run ${id}`);
  const worker = await pawl.startWorker({ only: id });
  const stop = new AbortController();
  const signals = onStopSignals(() => {
    stop.abort();
    worker.stop();
  });
  const watched = watchOthers(pawl, id, stop.signal);
  await worker.done;
  stop.abort();
  await watched;
  signals.remove();
  const report = await pawl.getRun(id);
  if (options.save !== undefined) {
    const messages = await exportMessages(pawl.store, await pawl.store.findRun(id));
    await writeFile(options.save, `${JSON.stringify(messages, null, 2)}\n`);
  }
  if (options.json) printJson(report);
  else if (report.result !== null) print(report.result);
  if (isTerminal(report.status)) {
    note(`${report.status} (${report.reason}) after ${report.steps} steps; pawl show ${id}`);
    if (report.error !== null) note(report.error);
    process.exitCode = report.status === "succeeded" ? 0 : 1;
  } else {
    note(
      `run ${id} is ${report.status} and can be resumed: pawl ${report.waiting ? `resume ${id}` : "worker --drain"}`,
    );
    process.exitCode = signals.exitCode() ?? 1;
  }
}

/** Says why nothing happens here: the folder is taken, or another worker has the run; then its log is shown. */
async function watchOthers(pawl: Pawl, id: string, signal: AbortSignal): Promise<void> {
  const { store } = pawl;
  let said = "";
  while (!signal.aborted) {
    const row = await store.getRun(id);
    if (row?.status === "queued" && row.ready === 0 && said !== "folder") {
      said = "folder";
      note("waiting: another run works in this folder");
    }
    const owner = (await store.loadWorkers()).find((worker) => worker.id === row?.ownerId);
    if (owner && owner.pid !== process.pid) {
      note(`worker ${owner.id} (pid ${owner.pid}) has this run; following its log`);
      return followRun(store, id, { write: (entry) => note(describeEntry(entry)), follow: true, signal });
    }
    await sleep(watchPollMs, undefined, { signal }).catch(() => {});
  }
}
