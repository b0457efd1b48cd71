import { ConfigError } from "../errors.ts";
import { printable } from "../report/text.ts";
import { withStore } from "./look.ts";
import { note, paint, printJson, type Style } from "./output.ts";
import { patchOf } from "./patch.ts";

/** `pawl diff RUN`: the change from base to end, as a patch; byte for byte where nobody looks at it. */
export async function diff(reference: string, options: { step?: string; json?: boolean }): Promise<void> {
  if (options.step !== undefined)
    throw new ConfigError("--step is not built yet: pawl diff RUN shows the whole change");
  await withStore(async ({ paths, store }) => {
    const run = await store.findRun(reference);
    const patch = await patchOf(run, paths);
    if (options.json)
      printJson({ id: run.id, base: run.baseCommit, head: run.headCommit, patch: patch.toString("utf8") });
    else if (process.stdout.isTTY) process.stdout.write(coloured(patch.toString("utf8")));
    else process.stdout.write(patch);
    if (patch.length === 0 && !options.json) note(`run ${run.id} changed no file`);
  });
}

const styles: [start: RegExp, style: Style][] = [
  [/^(diff|index|---|\+\+\+|new|deleted|old) /, "bold"],
  [/^@@/, "cyan"],
  [/^\+/, "green"],
  [/^-/, "red"],
];

function coloured(patch: string): string {
  return printable(patch)
    .split("\n")
    .map((line) => {
      const style = styles.find(([start]) => start.test(line))?.[1];
      return style === undefined ? line : paint(style, line);
    })
    .join("\n");
}
