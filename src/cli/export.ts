import { ConfigError } from "../errors.ts";
import { exportMessages, exportRow } from "../report/export.ts";
import { withStore } from "./look.ts";
import { printData, printJson } from "./output.ts";
import { patchOf } from "./patch.ts";

const formats = ["messages", "jsonl", "patch"];
const plannedFormats = ["traj", "preds"];

/** `pawl export RUN`: `messages` is one JSON array in OpenAI's form, `jsonl` the log a row a line, `patch` the change. */
export async function exportRun(reference: string, { format }: { format: string }): Promise<void> {
  if (plannedFormats.includes(format))
    throw new ConfigError(`--format ${format} is not built yet: use ${formats.join(", ")}`);
  if (!formats.includes(format))
    throw new ConfigError(`expected --format to be one of ${formats.join(", ")}, got ${format}`);
  await withStore(async ({ paths, store }) => {
    const run = await store.findRun(reference);
    if (format === "patch") printData(await patchOf(run, paths));
    else if (format === "jsonl")
      for (const row of await store.loadMessages(run.id)) printJson(exportRow(row));
    else printData(`${JSON.stringify(await exportMessages(store, run), null, 2)}\n`);
  });
}
