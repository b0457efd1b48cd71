import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { execaSync } from "execa";

/** Makes a git repository with one commit of these files; gives its path. */
export function makeRepository(folder: string, files: Record<string, string>): string {
  mkdirSync(folder, { recursive: true });
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    writeFileSync(path.join(folder, name), content);
  }
  git(folder, "init", "--quiet", "--initial-branch=main");
  git(folder, "add", ".");
  git(folder, "commit", "--quiet", "--message", "The beginning");
  return folder;
}

export function git(folder: string, ...words: string[]): string {
  const identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
  return execaSync("git", [...identity, ...words], { cwd: folder }).stdout;
}
