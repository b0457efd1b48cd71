import { readFile, rename, writeFile } from "node:fs/promises";
import path from "node:path";
import { z } from "zod";
import type { RunPaths } from "../paths.ts";

/** What happened to the workspace between owners. It stays in the record until the run's log tells it. */
const newsSchema = z.object({
  kind: z.enum(["workspace_rebuilt", "workspace_moved"]),
  /** For the model. */
  text: z.string(),
  /** The end of the log when it happened: a message behind it may tell it. */
  afterSeq: z.number(),
});
export type WorkspaceNews = z.infer<typeof newsSchema>;

/** What the first owner of a run writes last: where it stands, every part of the workspace is whole. */
const recordSchema = z.object({
  workspace: z.object({
    kind: z.enum(["clone", "dir", "empty"]),
    path: z.string(),
    baseCommit: z.string().nullable(),
    baseTree: z.string().nullable(),
    notes: z.array(z.string()),
  }),
  /** Stored relative to the run's folder, so that a moved data directory stays whole. */
  mirror: z.string().nullable(),
  /** Branch that the clone was made on; null where HEAD was detached. */
  branch: z.string().nullable().default(null),
  /** Folders without files at the start, as git printed them: git keeps no trace of them. */
  emptyFolders: z.array(z.string()),
  news: z.array(newsSchema).default([]),
});
export type WorkspaceRecord = z.infer<typeof recordSchema>;

export async function readRecord(run: RunPaths): Promise<WorkspaceRecord | null> {
  try {
    const record = recordSchema.parse(JSON.parse(await readFile(recordFile(run), "utf8")));
    return { ...record, mirror: record.mirror && path.resolve(run.dir, record.mirror) };
  } catch {
    // Missing or cut short by a power failure: the workspace counts as never made.
    return null;
  }
}

export async function writeRecord(run: RunPaths, record: WorkspaceRecord): Promise<void> {
  const file = recordFile(run);
  const mirror = record.mirror && path.relative(run.dir, record.mirror);
  await writeFile(`${file}.tmp`, JSON.stringify({ ...record, mirror }));
  await rename(`${file}.tmp`, file);
}

/** Takes these news out of the record. */
export async function dropNews(run: RunPaths, told: WorkspaceNews[]): Promise<void> {
  const record = await readRecord(run);
  if (record === null) return;
  const isTold = ({ text, afterSeq }: WorkspaceNews) =>
    told.some((each) => each.text === text && each.afterSeq === afterSeq);
  await writeRecord(run, { ...record, news: record.news.filter((each) => !isTold(each)) });
}

function recordFile(run: RunPaths): string {
  return path.join(run.dir, "workspace.json");
}
