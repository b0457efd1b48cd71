import { readFile, rename, writeFile } from "node:fs/promises";
import path from "node:path";
import { z } from "zod";
import type { RunPaths } from "../paths.ts";

/** What the first owner of a run writes last: where it stands, every part of the workspace is whole. */
const recordSchema = z.object({
  workspace: z.object({
    kind: z.enum(["clone", "dir", "empty"]),
    path: z.string(),
    baseCommit: z.string().nullable(),
    baseTree: z.string().nullable(),
    notes: z.array(z.string()),
  }),
  mirror: z.string().nullable(),
  /** Branch that the clone was made on; null where HEAD was detached. */
  branch: z.string().nullable().default(null),
  /** Folders without files at the start, as git printed them: git keeps no trace of them. */
  emptyFolders: z.array(z.string()),
});
export type WorkspaceRecord = z.infer<typeof recordSchema>;

export async function readRecord(run: RunPaths): Promise<WorkspaceRecord | null> {
  try {
    return recordSchema.parse(JSON.parse(await readFile(recordFile(run), "utf8")));
  } catch {
    // Missing or cut short by a power failure: the workspace counts as never made.
    return null;
  }
}

export async function writeRecord(run: RunPaths, record: WorkspaceRecord): Promise<void> {
  const file = recordFile(run);
  await writeFile(`${file}.tmp`, JSON.stringify(record));
  await rename(`${file}.tmp`, file);
}

function recordFile(run: RunPaths): string {
  return path.join(run.dir, "workspace.json");
}
