import { rm, stat, writeFile } from "node:fs/promises";
import type { RunPaths } from "../paths.ts";
import { type GitOptions, tryGit } from "./git.ts";

// Git believes the time of a file only if the index was written in a later second; until then it reads the file again,
// each time. After many files were written at once the index is written once more, so that this comes to an end.

/** Writes the index again where that was not done since many files were written. `inWorkspace` is with the index to write. */
export async function settleTimes(run: RunPaths, inWorkspace: GitOptions): Promise<void> {
  const [index, settled] = await Promise.all(
    [run.index, markerOf(run)].map((file) => stat(file).catch(() => null)),
  );
  if (!index || settled || secondOf(index.mtimeMs) >= secondOf(Date.now())) return;
  await tryGit(["update-index", "-q", "--force-write-index", "--refresh"], inWorkspace);
  await writeFile(markerOf(run), "");
}

/** Says that many files of the workspace were written just now. */
export async function unsettleTimes(run: RunPaths): Promise<void> {
  await rm(markerOf(run), { force: true });
}

function markerOf(run: RunPaths): string {
  return `${run.index}.settled`;
}

function secondOf(ms: number): number {
  return Math.floor(ms / 1000);
}
