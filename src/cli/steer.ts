import type { RunView } from "../db/read.ts";
import type { Steered } from "../db/steer.ts";
import type { Store } from "../db/store.ts";
import { ConfigError } from "../errors.ts";
import { classOf, isTerminal, reasonClasses } from "../outcome.ts";
import { withStore } from "./look.ts";
import { print, printJson } from "./output.ts";

interface Options {
  batch?: string;
  class?: string;
  json?: boolean;
}

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
  await withStore(async ({ store }) => {
    for (const run of await chooseRuns(store, { verb, references, options })) {
      const steered = await change(store, verb, run.id);
      if (options.json) printJson(steered);
      else print(`${run.id}  ${run.key ?? ""}  ${describe(verb, steered)}`);
    }
  });
}

async function chooseRuns(
  store: Store,
  input: { verb: string; references: string[]; options: Options },
): Promise<RunView[]> {
  const { verb, references, options } = input;
  const named = await Promise.all(references.map((reference) => store.findRun(reference)));
  const batch = options.batch === undefined ? [] : await store.loadRuns({ batch: options.batch });
  const inBatch = batch.filter((run) =>
    verb === "retry" ? isRetried(run, options) : !isTerminal(run.status),
  );
  const ofClass = (run: RunView) => options.class === undefined || classOf(run.reason) === options.class;
  return [...named, ...inBatch].filter(ofClass);
}

/** Without a class, what failed; successes and cancelled runs only where the class says so. */
function isRetried(run: RunView, options: Options): boolean {
  return options.class === undefined ? run.status === "failed" : isTerminal(run.status);
}

type Change = Steered & { retriedAs?: string };

async function change(store: Store, verb: string, id: string): Promise<Change> {
  switch (verb) {
    case "cancel":
      return store.cancel(id);
    case "pause":
      return store.pause(id);
    case "resume":
      return store.resume(id);
    default: {
      const retriedAs = await store.retry(id);
      return { id, status: "queued", changed: true, retriedAs };
    }
  }
}

function describe(verb: string, { status, changed, retriedAs }: Change): string {
  if (retriedAs !== undefined) return `retried as ${retriedAs}`;
  if (!changed) return `stays ${status}`;
  if (status === "running") return `${verb} requested; its worker sees to it`;
  return status;
}
