import { type FileHandle, open, readdir, stat } from "node:fs/promises";
import path from "node:path";
import { z } from "zod";
import { RecoverableError } from "../errors.ts";
import { isBinary, sampleBytes } from "./clean-text.ts";
import { confine, displayPath } from "./confine.ts";
import { defineTool } from "./define.ts";
import { readPage } from "./text-page.ts";

const defaultLines = 2_000;
/** Room for what is said below a page. */
const footerChars = 300;
const maxSuggestedNames = 10;

export const readFileTool = defineTool({
  name: "read_file",
  description:
    "Read a text file, exactly as it is and without line numbers. Long files come in pages: what is left out and how to " +
    "read on is said at the end. Whole outputs of earlier commands can be read by the path their result names.",
  parameters: z.strictObject({
    path: z.string().min(1).describe("Relative to the workspace, or absolute"),
    offset: z.number().int().positive().optional().describe("First line to read, from 1"),
    limit: z.number().int().positive().optional().describe(`How many lines, ${defaultLines} if left out`),
    column: z
      .number()
      .int()
      .positive()
      .optional()
      .describe("First character in that line, for very long lines"),
  }),
  class: "pure",
  async run(input, context) {
    const file = await confine(input.path, [context.workspace, context.outputs]);
    const shown = await displayPath(file, context.workspace);
    await checkIsFile(file, shown);
    const handle = await open(file);
    try {
      const { size } = await handle.stat();
      const sample = await readSample(handle);
      if (isBinary(sample))
        return `[${shown} is a binary file of ${size} bytes, or not in UTF-8; it is not shown]`;
      const { offset = 1, limit = defaultLines, column = 1 } = input;
      const maxChars = Math.max(1, context.maxResultChars - footerChars - shown.length);
      const page = await readPage(handle, { offset, limit, column, maxChars, signal: context.signal });
      if (page.lines === 0) {
        if (size === 0) return `[${shown} is empty]`;
        throw new RecoverableError(`offset: ${shown} has ${page.linesSkipped} lines, got offset ${offset}`);
      }
      const footer = describePage({ ...page, shown, offset, size });
      return {
        content: footer === "" ? page.text : `${page.text}\n${footer}`,
        note: page.lines === 1 ? "1 line" : `${page.lines} lines`,
      };
    } finally {
      await handle.close();
    }
  },
});

async function checkIsFile(file: string, shown: string): Promise<void> {
  const facts = await stat(file).catch(() => undefined);
  if (facts?.isDirectory()) throw new RecoverableError(`${shown} is a folder; list_files shows it`);
  // Opening a pipe or a device could wait forever.
  if (facts !== undefined && !facts.isFile()) throw new RecoverableError(`${shown} is not a regular file`);
  if (facts !== undefined) return;
  const names = (await readdir(path.dirname(file)).catch(() => [])).slice(0, maxSuggestedNames);
  const hint = names.length === 0 ? "" : `; its folder has ${names.join(", ")}`;
  throw new RecoverableError(`there is no file ${shown}${hint}`);
}

async function readSample(handle: FileHandle): Promise<Buffer> {
  const buffer = Buffer.alloc(sampleBytes);
  const { bytesRead } = await handle.read(buffer, 0, sampleBytes, 0);
  return buffer.subarray(0, bytesRead);
}

function describePage(page: {
  shown: string;
  offset: number;
  size: number;
  lines: number;
  nextColumn: number | null;
  hasMore: boolean;
  isCrlf: boolean;
}): string {
  const { shown, offset, size, lines, nextColumn, hasMore } = page;
  const last = offset + lines - 1;
  const notes: string[] = [];
  if (nextColumn !== null) {
    notes.push(`line ${last} is cut; read on with offset ${last} and column ${nextColumn}`);
  } else if (hasMore) {
    notes.push(`lines ${offset} to ${last}, more follow; read on with offset ${last + 1}`);
  }
  if (notes.length > 0) notes.push(`${shown} has ${size} bytes in all`);
  if (page.isCrlf) notes.push("lines end in CRLF, shown as LF; edit_file keeps them");
  return notes.length === 0 ? "" : `[${notes.join("; ")}]`;
}
