import path from "node:path";
import { type GitOptions, git, tryGit } from "./git.ts";

const maxKeyChars = 100;
const maxSlugChars = 40;

/** Names to try in order: the key where it is a safe branch name, else one with the run's id, which nobody else has. */
export function branchCandidates(options: { runId: string; key: string | null; title: string }): string[] {
  const { runId, key, title } = options;
  const withId = `${slug(key ?? title)}-${runId}`;
  const names = [`pawl/${withId}`, `pawl-${withId}`];
  return key !== null && isSafe(key) ? [`pawl/${key}`, ...names] : names;
}

/** The first candidate that the clone does not have, or that an earlier try of ours put there. Null if all are taken. */
export async function chooseBranch(options: {
  candidates: string[];
  clone: string;
  store: GitOptions;
}): Promise<string | null> {
  const { candidates, clone, store } = options;
  const listed = await git(["ls-remote", "--heads", "--", path.join(clone, ".git")], store);
  const taken = new Map(
    listed.split("\n").map((line) => {
      const [commit = "", name = ""] = line.split("\t");
      return [name.replace("refs/heads/", ""), commit];
    }),
  );
  for (const candidate of candidates) {
    const own = await tryGit(["rev-parse", "--quiet", "--verify", `refs/heads/${candidate}`], store);
    const isOurs = own.exitCode === 0 && taken.get(candidate) === own.stdout.trim();
    const isTaken = taken.has(candidate) && !isOurs;
    // A branch `pawl` leaves no room for `pawl/x`, nor the other way round.
    const isBlocked = [...taken.keys()].some(
      (name) => name !== "" && (candidate.startsWith(`${name}/`) || name.startsWith(`${candidate}/`)),
    );
    if (!isTaken && !isBlocked) return candidate;
  }
  return null;
}

function isSafe(key: string): boolean {
  if (key.length > maxKeyChars || key.includes("..")) return false;
  return key.split("/").every((part) => /^[A-Za-z0-9_][\w.-]*$/.test(part) && !/\.(lock)?$/.test(part));
}

function slug(text: string): string {
  const words = text
    .split("\n")[0]
    ?.toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .slice(0, maxSlugChars)
    .replace(/^-+|-+$/g, "");
  return words || "run";
}
