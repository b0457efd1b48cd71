import { createHash } from "node:crypto";
import { loadPrompt } from "./agent/protocols/prompt.ts";
import { type BatchBudget, type BatchBudgetChange, openBudgets } from "./budgets.ts";
import { createDataDirectory, resolveDataPaths } from "./config/data-directory.ts";
import { mergeParameters, secretsOfHeaders } from "./config/model-parameters.ts";
import { resolveModelSettings } from "./config/model-settings.ts";
import { readVariables } from "./config/variables.ts";
import { type Config, loadConfig } from "./config.ts";
import { openStore, type Store } from "./db/store.ts";
import { localEnvironment } from "./environment/local.ts";
import { ConfigError } from "./errors.ts";
import { failpoint } from "./failpoint.ts";
import { type Logger, silentLogger } from "./log.ts";
import type { Model } from "./model/model.ts";
import { profileOf } from "./model/profiles.ts";
import {
  findOwnModel,
  modelBinder,
  ownModelWindow,
  requireImageSupport,
  withLimitOf,
} from "./model-binder.ts";
import { gatherTools } from "./offered-tools.ts";
import type { DataPaths } from "./paths.ts";
import { storeImages } from "./producer/images.ts";
import { type TaskInput, tasksFromInputs } from "./producer/new-task.ts";
import { requireSound } from "./producer/sound.ts";
import type { EnqueueResult, NewTask, TaskSpec } from "./producer/task.ts";
import { embeddedQueue } from "./queue/embedded.ts";
import type { Queue } from "./queue/queue.ts";
import { createRedact, redactingLogger, secretsOf } from "./redact.ts";
import { phaseOf, type RunReport, reportRun } from "./report/run-view.ts";
import { reportStatus, type StatusReport } from "./report/status.ts";
import { fitToServer } from "./server-fit.ts";
import { taskDefaults } from "./task-defaults.ts";
import type { Tool } from "./tools/tool.ts";
import { packageVersion } from "./version.ts";
import { chooseTools } from "./worker/prepare-agent.ts";
import { publishHints } from "./worker/reconcile.ts";
import { startWorker, type Worker } from "./worker/worker.ts";

/** A result is cut to this when it is recorded, unless a twentieth of the window is less. */
const maxResultChars = 50_000;

export interface PawlOptions {
  /** Folder whose `.pawl`, `.env` and `pawl.config.*` count; the current one by default. */
  cwd?: string;
  /** The environment to read settings from; the process's own by default. */
  env?: NodeJS.ProcessEnv;
  /** Settings that go before all others, named as in a configuration file. */
  settings?: Record<string, unknown>;
  /** A model of your own instead of the configured one. */
  model?: Model;
  /** Tools beside the built-in ones. */
  tools?: Tool[];
  /** False leaves bash and the file tools out. */
  useBuiltInTools?: boolean;
  logger?: Logger;
}

/** An open data directory with the verbs of producers, workers and lookers-on. */
export interface Pawl {
  config: Config;
  paths: DataPaths;
  store: Store;
  /** Adds tasks, all or none. Throws ConfigError for a task with fields that are unknown or wrong. */
  enqueue(tasks: TaskInput | TaskInput[]): Promise<EnqueueResult[]>;
  enqueueParsed(tasks: NewTask[]): Promise<EnqueueResult[]>;
  /** Bounds what a batch may use, all of its runs together. Runs that waited for that go on. Throws ConfigError. */
  setBatchBudget(batch: string, budget: BatchBudget): Promise<BatchBudgetChange>;
  /**
   * Throws ConfigError where a run could not begin with these settings: no key, no model, a tool module that cannot be
   * loaded, a tool that does not exist. Enqueueing needs none of that, so it does not look.
   */
  requireRunnable(
    task: Partial<Pick<TaskSpec, "model" | "tools" | "protocol" | "modelParameters" | "budgetUsd">> & {
      images?: unknown[] | undefined;
    },
  ): Promise<void>;
  /** Starts a worker in this process. Throws ConfigError, with no run claimed, for settings that no run could begin with. */
  startWorker(options?: { concurrency?: number; drain?: boolean; only?: string }): Promise<Worker>;
  /** The run that an id, a unique prefix of one, or a key means. */
  getRun(reference: string): Promise<RunReport>;
  getStatus(batch?: string): Promise<StatusReport>;
  /** Stops the workers that still run, in order, then closes. */
  close(): Promise<void>;
}

/** Opens the data directory, making it if there is none. Throws ConfigError for settings that are wrong. */
export async function openPawl(options: PawlOptions = {}): Promise<Pawl> {
  const { cwd = process.cwd(), env = process.env } = options;
  const config = await loadConfig({ cwd, env, flags: options.settings ?? {} });
  const variables = [...readVariables({ cwd, env })].map(([name, { value }]) => [name, value]);
  const redact = createRedact(secretsOf(Object.fromEntries(variables), knownSecrets(config)));
  const logger = redactingLogger(options.logger ?? silentLogger, redact);
  const paths = resolveDataPaths({ cwd, env });
  await createDataDirectory(paths);
  const store = await openStore({ file: paths.database });
  const budgets = openBudgets(config, store);
  const queues: Queue[] = [];
  const workers: Worker[] = [];
  const openQueue = async (consume: boolean) => {
    const queue = await createQueue({ config, paths, store, consume, logger });
    queues.push(queue);
    return queue;
  };

  let ownModel: Promise<Model | undefined> | undefined;
  const loadModel = () => {
    ownModel ??= findOwnModel(config, options.model);
    return ownModel;
  };

  let loaded: Promise<Tool[]> | undefined;
  const loadTools = () => {
    loaded ??= gatherTools(config, options);
    return loaded;
  };

  async function requireRunnable(task: Parameters<Pawl["requireRunnable"]>[0]) {
    const {
      model = null,
      tools = null,
      protocol = config.protocol ?? "native",
      modelParameters,
      images,
    } = task;
    const limited = withLimitOf(config, mergeParameters(config, modelParameters));
    if (await loadModel()) ownModelWindow(limited);
    else {
      const { baseUrl, provider } = resolveModelSettings(limited, model);
      requireImageSupport(profileOf(baseUrl, provider), images);
    }
    budgets.requirePrice(task);
    chooseTools(await loadTools(), tools, protocol);
  }

  /** A worker can do without a model of its own as long as every run names one, or has begun with one. */
  async function requireModel(only: string | undefined) {
    if (await loadModel()) return void ownModelWindow(config);
    const isNeeded = config.model === null && (await store.hasRunWithoutModel(only));
    resolveModelSettings(config, config.model ?? (isNeeded ? null : "named by each run"));
  }

  let producer: Promise<Queue> | undefined;

  async function enqueueParsed(tasks: NewTask[]): Promise<EnqueueResult[]> {
    for (const { spec, batch } of tasks) {
      requireSound({ dir: spec.dir, batch, paths });
      budgets.requirePrice(spec);
    }
    await storeImages(tasks, store.putBlob);
    const results = await store.enqueue(tasks);
    failpoint("enqueue.committed");
    await publish();
    return results;
  }

  async function publish(): Promise<void> {
    if (config.queue === null) return;
    producer ??= openQueue(false);
    await publishHints({ store, queue: await producer, logger });
  }

  return {
    config,
    paths,
    store,
    enqueueParsed,
    async setBatchBudget(batch, budget) {
      requireSound({ dir: null, batch, paths });
      const change = await budgets.setBatch(batch, budget);
      await publish();
      return change;
    },
    requireRunnable,
    enqueue(tasks) {
      const inputs = Array.isArray(tasks) ? tasks : [tasks];
      return enqueueParsed(tasksFromInputs({ inputs, cwd, defaults: taskDefaults(config) }));
    },
    async startWorker({ concurrency = config.concurrency, drain = false, only } = {}) {
      if (!Number.isInteger(concurrency) || concurrency < 1)
        throw new ConfigError(`expected concurrency to be a whole number from 1 on, got ${concurrency}`);
      await requireModel(only);
      const tools = await loadTools();
      await budgets.setDay();
      const worker = startWorker({
        store,
        paths,
        logger,
        tools,
        queue: await openQueue(true),
        environment: localEnvironment({ limits: config.commandLimits }),
        systemPrompt: config.systemPrompt ?? (await loadPrompt("agent")),
        commandTimeoutMs: config.commandTimeoutMs,
        commandSilenceMs: config.commandSilenceMs,
        maxResultChars,
        dayBudget: budgets.day,
        bindModel: fitToServer(modelBinder(config, await loadModel(), { store, redact }), { config, logger }),
        env,
        redact,
        concurrency,
        leaseMs: config.leaseMs,
        minFreeBytes: config.minFreeBytes,
        version: packageVersion(),
        drain,
        ...(only !== undefined && { only }),
      });
      workers.push(worker);
      return worker;
    },
    async getRun(reference) {
      const run = await store.findRun(reference);
      return reportRun(run, paths, await phaseOf(store, run));
    },
    getStatus: (batch) => reportStatus(store, { dataDir: paths.dataDir, batch }),
    async close() {
      for (const worker of workers) worker.stop();
      await Promise.allSettled(workers.map(({ done }) => done));
      await Promise.all(queues.map((queue) => queue.close()));
      await store.close();
    },
  };
}

/** Secrets that no variable holds, or none of such a name. */
function knownSecrets({ apiKey, modelParameters }: Config): (string | null)[] {
  return [apiKey, ...secretsOfHeaders(modelParameters.extraHeaders)];
}

async function createQueue(input: {
  config: Config;
  paths: DataPaths;
  store: Store;
  consume: boolean;
  logger: Logger;
}): Promise<Queue> {
  const { config, paths, store, consume, logger } = input;
  if (config.queue === null) return embeddedQueue({ dataVersion: store.dataVersion });
  const { bullmqQueue } = await import("./queue/bullmq.ts");
  // Data directories may share a Redis without taking each other's hints.
  const prefix = `pawl-${createHash("sha256").update(paths.dataDir).digest("hex").slice(0, 12)}`;
  const onError = (error: Error) => logger.info("queue.unavailable", { error: error.message });
  return bullmqQueue({ url: config.queue, prefix, consume, onError });
}
