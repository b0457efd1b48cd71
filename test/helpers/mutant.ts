import { cpSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { temporaryFolder } from "./temporary-folder.ts";

const root = path.join(import.meta.dirname, "..", "..");

/** A change of the compiled code: the text that the pattern finds, once, is replaced. */
export interface Mutation {
  /** Below `dist`. */
  file: string;
  pattern: RegExp;
  replacement: string;
}

/** Copies the built code with one change and gives the copy's main file. Throws where the pattern does not fit exactly once. */
export function makeMutant({ file, pattern, replacement }: Mutation): string {
  const folder = temporaryFolder();
  cpSync(path.join(root, "dist"), path.join(folder, "dist"), { recursive: true });
  for (const name of ["migrations", "node_modules", "package.json"]) {
    symlinkSync(path.join(root, name), path.join(folder, name));
  }
  const target = path.join(folder, "dist", file);
  const text = readFileSync(target, "utf8");
  const found = text.match(new RegExp(pattern, "g"))?.length ?? 0;
  if (found !== 1)
    throw new Error(`expected ${pattern} once in dist/${file}, found it ${found} times: adapt the mutation`);
  writeFileSync(target, text.replace(pattern, replacement));
  return path.join(folder, "dist", "cli", "main.js");
}
