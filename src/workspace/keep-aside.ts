import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, rename } from "node:fs/promises";
import path from "node:path";
import type { RunPaths } from "../paths.ts";
import { recordFile } from "./record.ts";
import { storePath } from "./snapshot-store.ts";

/**
 * Gives the workspace and the snapshots of a run whose record is lost another name: they are not ours to delete. Returns
 * where they are, for a person, or null where there was nothing.
 */
export async function keepAside(run: RunPaths): Promise<string | null> {
  const mark = `${randomUUID()}.kept`;
  const workspace = `${run.workspace}.${mark}`;
  // Beside the run's folder: the relative paths by which its repository finds objects hold there too.
  const folder = `${run.dir}.${mark}`;
  const parts = [storePath(run), run.objects, run.index, recordFile(run)].filter((each) => existsSync(each));
  const hasWorkspace = existsSync(run.workspace);
  if (hasWorkspace) await rename(run.workspace, workspace);
  if (parts.length > 0) await mkdir(folder, { recursive: true });
  for (const each of parts) await rename(each, path.join(folder, path.basename(each)));
  const kept = [
    ...(hasWorkspace ? [`its files are kept in ${workspace}`] : []),
    ...(parts.length > 0 ? [`its snapshots are kept in ${folder}`] : []),
  ];
  return kept.length === 0 ? null : `the record of the workspace was lost: ${kept.join(", ")}`;
}
