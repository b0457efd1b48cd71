import { existsSync } from "node:fs";
import path from "node:path";
import { ConfigError } from "../errors.ts";
import { storedSpec } from "../report/stored-spec.ts";
import { counted, flat } from "../report/text.ts";
import { applyToCheckout } from "../workspace/apply.ts";
import { withStore } from "./look.ts";
import { note, print, printJson } from "./output.ts";
import { patchOf } from "./patch.ts";

/** `pawl apply RUN`: the change of a run, into the user's checkout; all of it or nothing. */
export async function apply(reference: string, options: { to?: string; json?: boolean }): Promise<void> {
  await withStore(async ({ paths, store }) => {
    const run = await store.findRun(reference);
    const spec = storedSpec(run);
    if (spec.dir !== null)
      throw new ConfigError(`run ${run.id} worked in ${spec.dir} itself: there is nothing to bring there`);
    const checkout = options.to === undefined ? checkoutOf(spec.repo) : path.resolve(options.to);
    const { files, isThere } = await applyToCheckout({ patch: await patchOf(run, paths), checkout });
    if (options.json) return printJson({ id: run.id, checkout, files, ...(isThere && { isThere }) });
    for (const file of files) print(flat(file));
    note(describe({ files, isThere, checkout }));
  });
}

function describe(applied: { files: string[]; isThere: boolean; checkout: string }): string {
  const { files, isThere, checkout } = applied;
  if (isThere) return `the change is in ${checkout} already; nothing was done`;
  if (files.length === 0) return "the run changed nothing";
  return `${counted(files.length, "file")} changed in ${checkout}`;
}

function checkoutOf(repo: string | null): string {
  if (repo !== null && existsSync(repo)) return repo;
  throw new ConfigError(
    repo === null
      ? "expected a run with a repository, got one without: say where to with --to FOLDER"
      : `expected a checkout of ${repo} on this machine: say where it is with --to FOLDER`,
  );
}
