import { lstat } from "node:fs/promises";
import { decodePath, type GitOptions, gitList, rawPath } from "./git.ts";

/**
 * What a change from one snapshot to another would have to remove although no snapshot holds it: ignored files where the
 * other snapshot has a file or folder. Git itself would overwrite them. Null if there is none.
 */
export async function findObstacle(options: {
  folder: string;
  from: string;
  to: string;
  /** With the folder as work tree, and an index of the state `from`. */
  inFolder: GitOptions;
}): Promise<string | null> {
  const { folder, from, to, inFolder } = options;
  const list = (filter: string) =>
    gitList(["diff-tree", "-r", "-z", "--name-only", "--no-renames", filter, from, to], inFolder);
  const deleted = new Set(await list("--diff-filter=D"));
  const clear = new Set<string>();
  for (const added of await list("--diff-filter=A")) {
    for (const part of partsOf(added)) {
      if (part !== added && clear.has(part)) continue;
      const found = await lstat(rawPath(folder, part)).catch(() => null);
      // Nothing below can be in the way, whether it is missing or goes away with what is deleted.
      if (found === null || deleted.has(part)) break;
      if (!found.isDirectory()) return decodePath(part);
      if (part !== added) clear.add(part);
      else {
        const [inside] = await gitList(["ls-files", "-z", "--others", "--", `:(literal)${part}/`], inFolder);
        if (inside !== undefined) return decodePath(inside);
      }
    }
  }
  return null;
}

/** `a`, `a/b`, `a/b/c` */
function partsOf(file: string): string[] {
  const parts = file.split("/");
  return parts.map((_, at) => parts.slice(0, at + 1).join("/"));
}
