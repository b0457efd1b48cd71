import { randomUUID } from "node:crypto";
import { readFile, rm } from "node:fs/promises";
import path from "node:path";
import type { RunPaths } from "../paths.ts";
import { decodePath, gitList } from "./git.ts";
import { writeDiff } from "./patch.ts";
import { storeOptions } from "./snapshot-store.ts";

/** A path that differs between two snapshots: added, modified (contents, mode or type) or deleted. */
export interface Change {
  status: "A" | "M" | "D";
  /** Relative to the workspace. */
  path: string;
}

interface Trees {
  run: RunPaths;
  from: string;
  to: string;
  signal?: AbortSignal | undefined;
}

/** What is different in the snapshot `to`, sorted by path. Throws GitError where a snapshot is not there. */
export async function listChanges({ run, from, to, signal }: Trees): Promise<Change[]> {
  if (from === to) return [];
  const args = ["diff-tree", "-r", "-z", "--name-status", "--no-renames", from, to];
  const fields = await gitList(args, { ...storeOptions(run), signal });
  const changes: Change[] = [];
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const letter = fields[at];
    const status = letter === "A" || letter === "D" ? letter : "M";
    changes.push({ status, path: decodePath(fields[at + 1] ?? "") });
  }
  return changes;
}

/** The difference of two snapshots of a run: the paths, and a patch as `git apply` reads it, in bytes. */
export async function diffTrees(trees: Trees): Promise<{ files: Change[]; patch: Buffer }> {
  const files = await listChanges(trees);
  if (files.length === 0) return { files, patch: Buffer.alloc(0) };
  const file = path.join(trees.run.dir, `diff.${randomUUID()}.tmp`);
  try {
    await writeDiff({ ...trees, file });
    return { files, patch: await readFile(file) };
  } finally {
    await rm(file, { force: true });
  }
}
