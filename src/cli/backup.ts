import { stat } from "node:fs/promises";
import path from "node:path";
import { hasData, resolveDataPaths } from "../config/data-directory.ts";
import { backUpDatabase } from "../db/backup.ts";
import { byteSize } from "../disk.ts";
import { ConfigError } from "../errors.ts";
import { counted } from "../report/text.ts";
import { note, print, printJson } from "./output.ts";

/** `pawl backup FILE`: a sound copy of the database, also while workers write; says what is not in it. */
export async function backup(target: string, options: { json?: boolean }): Promise<void> {
  const paths = resolveDataPaths({ cwd: process.cwd(), env: process.env });
  if (!hasData(paths)) throw new ConfigError(`expected a database in ${paths.dataDir}, got none`);
  const file = path.resolve(target);
  const folder = await stat(path.dirname(file)).catch(() => null);
  if (!folder?.isDirectory())
    throw new ConfigError(`expected a file in a folder that there is, got ${file}: make the folder first`);
  const { bytes, runs, openRuns } = await backUpDatabase({ from: paths.database, to: file });
  const notIncluded = [path.join(paths.dataDir, "runs"), paths.repos, paths.workspaces];
  if (options.json) return printJson({ file, bytes, runs, openRuns, notIncluded });
  print(`${file}: ${byteSize(bytes)}, ${counted(runs, "run")}, ${openRuns} of them not ended`);
  const [ofRuns = "", mirrors = "", workspaces = ""] = notIncluded;
  note(
    `not in it: outputs, patches and snapshots (${ofRuns}), mirrors (${mirrors}), workspaces (${workspaces})`,
  );
  note(
    "copy these as well once the workers are stopped (pawl stop); without them a run that goes on from this",
  );
  note("copy begins again with the files of its first commit. docs/operations.md tells how to restore it");
}
