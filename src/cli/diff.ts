import { ConfigError } from "../errors.ts";
import { withStore } from "./look.ts";
import { printJson } from "./output.ts";
import { patchOf } from "./patch.ts";

/** `pawl diff RUN`: the change from base to end, as a patch. */
export async function diff(reference: string, options: { step?: string; json?: boolean }): Promise<void> {
  if (options.step !== undefined)
    throw new ConfigError("--step is not built yet: pawl diff RUN shows the whole change");
  await withStore(async ({ paths, store }) => {
    const run = await store.findRun(reference);
    const patch = await patchOf(run, paths);
    if (options.json)
      printJson({ id: run.id, base: run.baseCommit, head: run.headCommit, patch: patch.toString("utf8") });
    else process.stdout.write(patch);
  });
}
