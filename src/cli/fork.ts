import { withStore } from "./look.ts";
import { note, print, printJson } from "./output.ts";
import { readStep } from "./step.ts";

/** `pawl fork RUN --step N [PROMPT]`: a new run that goes on from a step of another one, for workers to claim. */
export async function fork(
  reference: string,
  prompt: string | undefined,
  options: { step: string; json?: boolean },
): Promise<void> {
  await withStore(async ({ store }) => {
    const run = await store.findRun(reference);
    const step = readStep(options.step, { run, least: 0 });
    const id = await store.fork(run.id, { step, followUp: prompt ?? null });
    if (options.json) return printJson({ id, origin: run.id, step });
    print(id);
    note(`goes on from step ${step} of run ${run.id}; pawl worker works on it`);
  });
}
