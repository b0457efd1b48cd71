import { existsSync, realpathSync } from "node:fs";
import path from "node:path";
import { ConfigError } from "../errors.ts";
import type { DataPaths } from "../paths.ts";

/** Of a task that is about to be enqueued: pawl's own folders are no place to work in, and a batch has a name that people can write. */
export function requireSound(task: { dir: string | null; batch: string | null; paths: DataPaths }): void {
  const { dir, batch, paths } = task;
  if (batch !== null && (batch.trim() === "" || /[\p{Cc}\p{Surrogate}]/u.test(batch))) {
    throw new ConfigError(
      `expected the name of a batch to be a text without control characters, got ${JSON.stringify(batch)}: leave it out or name it`,
    );
  }
  const owner = [paths.dataDir, paths.workspaces].find((folder) => dir !== null && isWithin(dir, folder));
  if (owner !== undefined)
    throw new ConfigError(
      `expected a folder of yours to work in, got ${dir}, which is pawl's own (in ${owner}): name another --dir`,
    );
}

function isWithin(dir: string, folder: string): boolean {
  const own = existsSync(folder) ? realpathSync(folder) : folder;
  return dir === own || dir.startsWith(`${own}${path.sep}`);
}
