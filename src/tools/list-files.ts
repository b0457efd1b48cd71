import { opendir, stat } from "node:fs/promises";
import path from "node:path";
import { z } from "zod";
import { RecoverableError } from "../errors.ts";
import { confine } from "./confine.ts";
import { defineTool } from "./define.ts";
import { globMatcher } from "./glob.ts";

/** More entries than this are not listed. */
const maxListed = 500;
/** More entries than this are not looked at. */
const maxVisited = 50_000;
const maxGlobChars = 200;
const ignoredNames = new Set([".git", "node_modules", ".pawl", "__pycache__", ".venv"]);

export const listFilesTool = defineTool({
  name: "list_files",
  description:
    `List files, nearest folders first, at most ${maxListed}; folders end in "/". ` +
    `${[...ignoredNames].join(", ")} are left out unless path points into them.`,
  parameters: z.strictObject({
    path: z.string().optional().describe("The folder; the workspace if left out"),
    glob: z
      .string()
      .max(maxGlobChars)
      .optional()
      .describe('Only files that match, relative to path: "*.ts" in any folder, "src/**/*.test.ts"'),
  }),
  class: "pure",
  async run(input, context) {
    const shown = input.path ?? ".";
    const root = await confine(shown, [context.workspace, context.outputs]);
    const facts = await stat(root).catch(() => undefined);
    if (facts === undefined) throw new RecoverableError(`there is no folder ${shown}`);
    if (!facts.isDirectory()) throw new RecoverableError(`${shown} is a file; read_file shows it`);
    const found = await walk({
      root,
      glob: input.glob,
      maxChars: context.maxResultChars,
      signal: context.signal,
    });
    const note = `${found.listed.length} entries`;
    if (found.listed.length === 0) {
      return {
        content: input.glob === undefined ? `${shown} is empty` : `no file in ${shown} matches ${input.glob}`,
        note,
      };
    }
    return { content: [...found.listed, ...describeRest(found)].join("\n"), note };
  },
});

interface Found {
  listed: string[];
  leftOut: number;
  isVisitBounded: boolean;
}

/** Breadth first, so that a list that is cut still shows the whole of the top. */
async function walk(options: {
  root: string;
  glob: string | undefined;
  maxChars: number;
  signal: AbortSignal;
}): Promise<Found> {
  const { root, glob, maxChars, signal } = options;
  const matches = glob === undefined ? () => true : globMatcher(glob);
  const found: Found = { listed: [], leftOut: 0, isVisitBounded: false };
  const folders = [""];
  let visited = 0;
  let charsLeft = maxChars - 200;
  for (const folder of folders) {
    signal.throwIfAborted();
    const entries = await readFolder(path.join(root, folder), maxVisited - visited);
    visited += entries.length;
    for (const { name, isFolder } of entries) {
      const relative = folder === "" ? name : `${folder}/${name}`;
      if (isFolder) folders.push(relative);
      if (isFolder ? glob !== undefined : !matches(relative)) continue;
      const line = printable(isFolder ? `${relative}/` : relative);
      charsLeft -= line.length + 1;
      if (charsLeft < 0 || found.listed.length >= maxListed) found.leftOut += 1;
      else found.listed.push(line);
    }
    if (visited >= maxVisited) {
      found.isVisitBounded = true;
      break;
    }
  }
  return found;
}

/** Up to `max` entries, sorted; the memory stays bounded in a folder of any size. */
async function readFolder(folder: string, max: number): Promise<{ name: string; isFolder: boolean }[]> {
  const entries: { name: string; isFolder: boolean }[] = [];
  const directory = await opendir(folder).catch(() => undefined);
  if (directory === undefined) return entries;
  for await (const entry of directory) {
    if (ignoredNames.has(entry.name)) continue;
    entries.push({ name: entry.name, isFolder: entry.isDirectory() });
    if (entries.length >= max) break;
  }
  return entries.sort((a, b) => (a.name < b.name ? -1 : 1));
}

function describeRest({ leftOut, isVisitBounded }: Found): string[] {
  const atLeast = isVisitBounded ? `at least ${leftOut}` : String(leftOut);
  if (leftOut === 0 && !isVisitBounded) return [];
  return [`[${atLeast} more are not shown; give a path or a glob to narrow the list]`];
}

/** A name with a line break or control characters would look like something else. */
function printable(name: string): string {
  return /\p{Cc}/u.test(name) ? JSON.stringify(name) : name;
}
