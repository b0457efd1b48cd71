import { open, readFile, rename } from "node:fs/promises";
import path from "node:path";
import { z } from "zod";
import { messageOf, WorkspaceError } from "../errors.ts";
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

/**
 * Null where there is none, or a half of one: then the workspace counts as never made, and whoever makes it keeps what there
 * is. Throws WorkspaceError where it cannot be read, which says nothing of the workspace.
 */
export async function readRecord(run: RunPaths): Promise<WorkspaceRecord | null> {
  const text = await readText(recordFile(run));
  const record = text === null ? null : parseRecord(text);
  return record && { ...record, mirror: record.mirror && path.resolve(run.dir, record.mirror) };
}

async function readText(file: string): Promise<string | null> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return null;
    throw new WorkspaceError(`the record of the workspace cannot be read: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

function parseRecord(text: string): WorkspaceRecord | null {
  try {
    return recordSchema.safeParse(JSON.parse(text)).data ?? null;
  } catch {
    return null;
  }
}

/** On disk when it resolves: what is stored of the run afterwards counts on it. */
export async function writeRecord(run: RunPaths, record: WorkspaceRecord): Promise<void> {
  const file = recordFile(run);
  const mirror = record.mirror && path.relative(run.dir, record.mirror);
  const draft = await open(`${file}.tmp`, "w");
  try {
    await draft.writeFile(JSON.stringify({ ...record, mirror }));
    await draft.sync();
  } finally {
    await draft.close();
  }
  await rename(`${file}.tmp`, file);
  const folder = await open(run.dir);
  await folder.sync().finally(() => folder.close());
}

/** Takes these news out of the record. */
export async function dropNews(run: RunPaths, told: WorkspaceNews[]): Promise<void> {
  const record = await readRecord(run);
  if (record === null) return;
  const isTold = ({ text, afterSeq }: WorkspaceNews) =>
    told.some((each) => each.text === text && each.afterSeq === afterSeq);
  await writeRecord(run, { ...record, news: record.news.filter((each) => !isTold(each)) });
}

/** Where a run's record is. */
export function recordFile(run: RunPaths): string {
  return path.join(run.dir, "workspace.json");
}
