import type { RunView } from "../db/read.ts";
import { requireRetryable, type Steered } from "../db/steer.ts";
import type { Store } from "../db/store.ts";
import { ConfigError } from "../errors.ts";
import { classOf, isTerminal, reasonClasses } from "../outcome.ts";
import type { TaskChanges } from "../producer/task.ts";
import { flat } from "../report/text.ts";
import { withStore } from "./look.ts";
import { note, print, printJson } from "./output.ts";

type Options = Record<string, unknown> & {
  batch?: string;
  class?: string;
  json?: boolean;
};

/** `pawl cancel|pause|resume|retry`: each of the runs named, or those of a batch that the verb can change. */
export async function steer(verb: string, references: string[], options: Options): Promise<void> {
  if (references.length === 0 && options.batch === undefined) {
    throw new ConfigError(
      `expected runs or --batch, got neither: pawl ${verb} RUN…, or pawl ${verb} --batch NAME`,
    );
  }
  if (options.class !== undefined && !Object.hasOwn(reasonClasses, options.class)) {
    throw new ConfigError(
      `expected --class to be one of ${Object.keys(reasonClasses).join(", ")}, got ${options.class}`,
    );
  }
  const changes = verb === "retry" ? await readChanges(options) : {};
  await withStore(async ({ store }) => {
    const chosen = await chooseRuns(store, { verb, references, options, changes });
    const waitsForProvider = chosen.some(({ waitKind }) => waitKind === "auth" || waitKind === "quota");
    // Once, and first: what is then still wrong is found by one request, and shuts the gate for the others.
    if (verb === "resume" && waitsForProvider) await store.openGates();
    for (const run of chosen) {
      const steered = await change(store, { verb, id: run.id, changes });
      if (options.json) printJson(steered);
      else print([run.id, ...(run.key === null ? [] : [flat(run.key)]), describe(verb, steered)].join("  "));
    }
    if (chosen.length === 0)
      note(
        verb === "retry" && options.class === undefined
          ? "no run to retry: only failed ones are, unless --class names others"
          : `no run to ${verb}`,
      );
  });
}

async function readChanges(flags: Record<string, unknown>): Promise<TaskChanges> {
  const { changesFromFlags } = await import("../producer/new-task.ts");
  const changes = changesFromFlags({ flags, cwd: process.cwd() });
  if (changes.tools) await requireTools(changes.tools);
  return changes;
}

async function requireTools(names: string[]): Promise<void> {
  const [{ loadConfig }, { findUnknownTools }] = await Promise.all([
    import("../config.ts"),
    import("../modules.ts"),
  ]);
  const config = await loadConfig({ cwd: process.cwd(), env: process.env });
  const [problem] = (await findUnknownTools(names, config.tools)).values();
  if (problem !== undefined) throw new ConfigError(`--tools: ${problem}`);
}

async function chooseRuns(
  store: Store,
  input: { verb: string; references: string[]; options: Options; changes: TaskChanges },
): Promise<RunView[]> {
  const { verb, references, options, changes } = input;
  const named = await Promise.all(references.map((reference) => store.findRun(reference)));
  const batch = options.batch === undefined ? [] : await store.loadRuns({ batch: options.batch });
  const inBatch = batch.filter((run) => canChange(verb, run, options));
  const ofClass = (run: RunView) => options.class === undefined || classOf(run.reason) === options.class;
  // One run may be named twice, or be in the batch too.
  const chosen = new Map([...named, ...inBatch].filter(ofClass).map((run) => [run.id, run]));
  // Before anything is changed: all of the runs named, or none.
  for (const run of chosen.values()) if (verb === "retry") requireRetryable(run, changes);
  return [...chosen.values()];
}

function canChange(verb: string, run: RunView, options: Options): boolean {
  if (verb === "retry") {
    // Without a class, what failed; successes and cancelled runs only where the class says so.
    return options.class === undefined ? run.status === "failed" : isTerminal(run.status);
  }
  if (verb === "resume") return run.status === "waiting" || run.pauseAt !== null;
  return !isTerminal(run.status);
}

type Change = Steered & { retriedAs?: string };

async function change(
  store: Store,
  { verb, id, changes }: { verb: string; id: string; changes: TaskChanges },
): Promise<Change> {
  switch (verb) {
    case "cancel":
      return store.cancel(id);
    case "pause":
      return store.pause(id);
    case "resume":
      return store.resume(id);
    default: {
      const retriedAs = await store.retry(id, changes);
      return { id, status: "queued", changed: true, retriedAs };
    }
  }
}

function describe(verb: string, { status, changed, retriedAs, stands }: Change): string {
  if (retriedAs !== undefined) return `retried as ${retriedAs}`;
  if (!changed) return `stays ${status}`;
  if (status === "running") return `${verb} requested; its worker, or the next one, sees to it`;
  if (verb === "cancel" && status === "queued") return "cancel requested; the next worker ends it";
  return stands === undefined ? status : `${status}; run ${stands} stands again`;
}
