import { constants, realpathSync } from "node:fs";
import { access, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { resolveModelSettings } from "../config/model-settings.ts";
import { type Config, loadConfig } from "../config.ts";
import { ConfigError, messageOf } from "../errors.ts";
import { isTerminal } from "../outcome.ts";
import { runPaths } from "../paths.ts";
import { openPawl, type Pawl } from "../pawl.ts";
import { tasksFromFlags } from "../producer/new-task.ts";
import type { NewTask } from "../producer/task.ts";
import { exportMessages } from "../report/export.ts";
import type { RunReport } from "../report/run-view.ts";
import { clip, counted, duration, flat, localTime } from "../report/text.ts";
import { describeCost } from "../report/usage.ts";
import { taskDefaults } from "../task-defaults.ts";
import { isProvenDead, ownIdentity } from "../worker/identity.ts";
import { readTasks } from "./enqueue.ts";
import { describeEntry, followRun } from "./logs.ts";
import { note, paint, printData, printJson } from "./output.ts";
import { onStopSignals, openProgress, type Progress } from "./progress.ts";

type Options = Record<string, unknown> & {
  batch?: string;
  provider?: string;
  baseUrl?: string;
  save?: string;
  json?: boolean;
  repo?: string;
  dir?: string;
  continue?: string;
};

const watchPollMs = 250;
const maxPromptColumns = 60;
const interrupted = 130;

/** `pawl run`: one task, worked on here; steps on stderr, the answer on stdout. Ctrl-C leaves it resumable. */
export async function run(prompt: string, options: Options): Promise<void> {
  if (options.continue !== undefined)
    throw new ConfigError("--continue is not built yet: start a new run without it");
  const { provider, baseUrl: ownUrl } = options;
  const settings = {
    ...(provider !== undefined && { provider }),
    ...(ownUrl !== undefined && { baseUrl: ownUrl }),
  };
  const cwd = process.cwd();
  const config = await loadConfig({ cwd, env: process.env, flags: settings });
  const flags = { ...options, prompt, ...choosePlace(options) };
  const input = { flags, cwd, batch: options.batch ?? null, defaults: taskDefaults(config) };
  const [task] = await readTasks((unknownTools) => tasksFromFlags({ ...input, unknownTools }), config.tools);
  if (!task) throw new Error("one prompt gives one task");
  // What would only fail later is looked at before anything is stored.
  const model = describeModel(config, task.spec.model);
  if (options.save !== undefined) await requireWritable(options.save);
  const progress = openProgress({ level: config.logLevel, manyRuns: false });
  const pawl = await openPawl({ settings, logger: progress.logger });
  try {
    await pawl.requireRunnable(task.spec);
    // Who asks for one run here and now may have mended what shut the gate.
    await pawl.store.openGates(["auth", "quota"]);
    const id = await enqueueOne(pawl, task, progress);
    progress.note(`run ${id} with ${model}`);
    if (task.spec.repo === null && task.spec.dir === null)
      progress.note(
        `in an empty folder: ${runPaths(pawl.paths, id).workspace} (--repo or --dir name another)`,
      );
    const { report, wasStopped } = await workOn(pawl, id, progress);
    progress.close();
    await conclude({ pawl, report, wasStopped, options });
  } finally {
    progress.close();
    await pawl.close();
  }
}

/** Which model is asked, and where. Throws ConfigError for settings that do not suffice. */
function describeModel(config: Config, name: string | null): string {
  const { modelModule } = config;
  if (modelModule !== null) return `${name ?? config.model ?? "the model"} of ${modelModule}`;
  const { model, baseUrl } = resolveModelSettings(config, name);
  return `${model} at ${new URL(baseUrl).host}`;
}

/** At a terminal the current folder, said first; elsewhere an empty one. */
function choosePlace(options: Options): { dir?: string } {
  if (options.repo !== undefined || options.dir !== undefined) return {};
  if (!process.stdin.isTTY || !process.stderr.isTTY) return {};
  const dir = realpathSync(process.cwd());
  note(`working in the current folder as it is: ${dir} (--repo . works in an own clone)`);
  return { dir };
}

/** A night's history should not be lost to a file that cannot be written. */
async function requireWritable(file: string): Promise<void> {
  const place = path.resolve(file);
  const found = await stat(place).catch(() => null);
  const isWritable = await access(found ? place : path.dirname(place), constants.W_OK).then(
    () => file !== "" && (found === null || found.isFile()),
    () => false,
  );
  if (!isWritable)
    throw new ConfigError(
      `--save: expected a file that can be written, got ${JSON.stringify(file)}: name another one`,
    );
}

async function enqueueOne(pawl: Pawl, task: NewTask, progress: Progress): Promise<string> {
  const [created] = await pawl.enqueueParsed([task]);
  if (!created) throw new Error("one task gives one run");
  if (!created.created) {
    const taken = await pawl.getRun(created.id);
    progress.note(describeTaken(taken, { isChanged: created.changed === true, prompt: task.spec.prompt }));
  }
  return created.id;
}

function describeNext({ id, status, finishedAt }: RunReport): string {
  if (finishedAt !== null) return "nothing is run, this is its answer";
  return status === "waiting" ? `pawl resume ${id} lets it go on` : "going on with that run";
}

/** The same key is the same run: nobody may take an old answer for one to a new prompt. */
function describeTaken(run: RunReport, task: { isChanged: boolean; prompt: string }): string {
  const { id, key, status, finishedAt } = run;
  const stand = finishedAt === null ? `is ${status}` : `${status} at ${finishedAt}`;
  const head = `the key ${flat(key)} is taken by run ${id}, which ${stand}: ${describeNext(run)}`;
  if (!task.isChanged) return `${head}; pawl retry ${id} makes a new attempt`;
  return `${paint("red", "NOT USED", process.stderr)}: the new task, ${JSON.stringify(clip(flat(task.prompt), maxPromptColumns))}, differs from the one enqueued. ${head}. Another --key runs the new task; pawl retry ${id} tries the old one again`;
}

async function workOn(
  pawl: Pawl,
  id: string,
  progress: Progress,
): Promise<{ report: RunReport; wasStopped: boolean }> {
  const worker = await pawl.startWorker({ only: id });
  const stop = new AbortController();
  const signals = onStopSignals(() => {
    stop.abort();
    worker.stop();
  }, progress.note);
  const watched = watchOthers({ pawl, id, signal: stop.signal, progress });
  try {
    await worker.done;
  } finally {
    stop.abort();
    await watched.catch(() => {});
    signals.remove();
  }
  return { report: await pawl.getRun(id), wasStopped: signals.received() !== undefined };
}

/** Says why nothing happens here: the folder is taken, or another worker has the run; then its log is shown. */
async function watchOthers(options: {
  pawl: Pawl;
  id: string;
  signal: AbortSignal;
  progress: Progress;
}): Promise<void> {
  const { pawl, id, signal, progress } = options;
  const { store } = pawl;
  const self = ownIdentity();
  let said = "";
  while (!signal.aborted) {
    const row = await store.getRun(id);
    if (row?.status === "queued" && row.ready === 0) {
      const why = describeBlock(await store.getLaneHolder(row.lane ?? ""));
      if (why !== said) progress.note(why);
      said = why;
    }
    const owner = (await store.loadWorkers()).find((worker) => worker.id === row?.ownerId);
    if (owner && owner.pid !== process.pid && !isProvenDead(owner, self)) {
      progress.note(`worker ${owner.id} (pid ${owner.pid}) has this run; following its log`);
      const write = (entry: Parameters<typeof describeEntry>[0]) => progress.note(describeEntry(entry));
      return followRun(store, id, { write, follow: true, signal });
    }
    await sleep(watchPollMs, undefined, { signal }).catch(() => {});
  }
}

/** Who has the folder decides what a person can do about it. */
function describeBlock(holder: { id: string; status: string; waitKind: string | null } | undefined): string {
  const head = "waiting: one run at a time works in this folder";
  if (!holder) return head;
  const { id, status, waitKind } = holder;
  if (status === "running") return `${head}, now it is run ${id} (pawl logs -f ${id})`;
  const goOn = status === "waiting" ? `pawl resume ${id}` : "pawl worker --drain";
  const how = status === "waiting" ? `waits (${waitKind})` : "is queued, and nobody works on it";
  return `${head}; run ${id} comes first, which ${how}: ${goOn} goes on with it, pawl cancel ${id} gives it up`;
}

async function conclude(input: {
  pawl: Pawl;
  report: RunReport;
  wasStopped: boolean;
  options: Options;
}): Promise<void> {
  const { pawl, report, wasStopped, options } = input;
  if (options.json) printJson(report);
  else if (report.result !== null) printData(`${report.result}\n`);
  for (const line of summarize(report)) note(line);
  if (isTerminal(report.status)) process.exitCode = report.status === "succeeded" ? 0 : 1;
  else process.exitCode = wasStopped ? interrupted : 1;
  if (options.save === undefined) return;
  const messages = await exportMessages(pawl.store, await pawl.store.findRun(report.id));
  try {
    await writeFile(options.save, `${JSON.stringify(messages, null, 2)}\n`);
  } catch (error) {
    const again = `pawl export ${report.id} --format messages`;
    throw new ConfigError(
      `--save: expected to write ${options.save}, got: ${messageOf(error)}; ${again} gives it`,
    );
  }
  note(`${counted(messages.length, "message")} saved in ${options.save}`);
}

function summarize(report: RunReport): string[] {
  const { id, status, reason, error, waiting, steps, changedFiles, usage } = report;
  if (!isTerminal(status)) {
    const goOn = waiting ? `pawl resume ${id}, then pawl worker --drain` : "pawl worker --drain";
    const wakeAt = waiting?.wakeAt ?? null;
    // Before its time it would only wait again.
    if (waiting && wakeAt !== null && waiting.kind !== "paused")
      return [
        `run ${id} waits until ${localTime(wakeAt)} (${[waiting.kind, waiting.note].filter(Boolean).join(": ")}) and then goes on by itself where a worker runs: pawl worker`,
      ];
    const why = waiting ? ` (${[waiting.kind, waiting.note].filter(Boolean).join(": ")})` : "";
    return [`run ${id} is ${status}${why} after ${counted(steps, "step")} and can be resumed: ${goOn}`];
  }
  const began = Date.parse(report.startedAt ?? report.createdAt);
  const facts = [
    `${status}${status === "succeeded" ? "" : ` (${reason})`} after ${counted(steps, "step")}`,
    duration(Date.parse(report.finishedAt ?? report.createdAt) - began),
    `${usage.promptTokens} → ${usage.completionTokens} tokens`,
    describeCost(usage),
    changedFiles === null ? "" : `${counted(changedFiles.length, "file")} changed`,
  ];
  const next = ["show", ...(changedFiles?.length ? ["diff"] : [])].map((verb) => `pawl ${verb} ${id}`);
  return [...(error === null ? [] : [error]), `${facts.filter(Boolean).join(" · ")} (${next.join(", ")})`];
}
