import { createHash } from "node:crypto";
import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { z } from "zod";
import { RecoverableError } from "../errors.ts";
import { writeAtomically } from "./atomic-write.ts";
import { confine, displayPath } from "./confine.ts";
import { defineTool } from "./define.ts";
import { applyEdit } from "./edit-text.ts";
import type { ToolContext } from "./tool.ts";

/** A larger file is no text that is edited by hand. */
const maxFileBytes = 20_000_000;

const intentSchema = z.object({
  file: z.string(),
  before: z.string(),
  after: z.string(),
  message: z.string(),
});

/** Replaces text. Repeating it is not safe in general, but what became of an interrupted edit can be told with certainty. */
export const editFileTool = defineTool({
  name: "edit_file",
  description:
    "Replace oldText by newText in a file. oldText must be exactly the text of the file, without line numbers, and occur " +
    "once; give more lines around it to make it unique, or set replaceAll. Both texts are literal.",
  parameters: z.strictObject({
    path: z.string().min(1).describe("Relative to the workspace, or absolute inside of it"),
    oldText: z.string().describe("The text to find, with its whitespace"),
    newText: z.string().describe("The text to put in its place"),
    replaceAll: z.boolean().optional().describe("Replace every occurrence"),
  }),
  class: "unsafe",
  async run(input, context) {
    const file = await confine(input.path, [context.workspace]);
    const before = await readText(file, input.path);
    const edit = applyEdit(before, { ...input, replaceAll: input.replaceAll === true });
    const shown = await displayPath(file, context.workspace);
    const message = `replaced ${edit.count} ${edit.count === 1 ? "place" : "places"} in ${shown}, first at line ${edit.line}`;
    // The file changes in one step from one known content to another: with both hashes kept, recovery is certain.
    const intent = { file, before: hash(before), after: hash(edit.text), message };
    await mkdir(context.calls, { recursive: true });
    await writeFile(intentFile(context, context.epoch), JSON.stringify(intent));
    await writeAtomically(file, edit.text, context.callId);
    return { content: message, note: `${edit.count} replaced` };
  },
  async recover(_input, context, startedEpoch) {
    const intent = await readIntent(intentFile(context, startedEpoch));
    if (intent === undefined) return { kind: "not_started" };
    const now = await readFile(intent.file, "utf8").then(hash, () => "");
    if (now === intent.after) return { kind: "done", output: { content: intent.message } };
    if (now === intent.before) return { kind: "not_started" };
    return { kind: "unknown", detail: `${intent.file} was changed by something else since` };
  },
});

async function readText(file: string, shown: string): Promise<string> {
  const facts = await stat(file).catch(() => undefined);
  if (facts === undefined) throw new RecoverableError(`there is no file ${shown}; write_file creates one`);
  if (!facts.isFile()) throw new RecoverableError(`${shown} is not a file`);
  if (facts.size > maxFileBytes) {
    throw new RecoverableError(
      `${shown} has ${facts.size} bytes, at most ${maxFileBytes} can be edited; use bash`,
    );
  }
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await readFile(file));
  } catch {
    throw new RecoverableError(`${shown} is not UTF-8 text and would be damaged; use bash to change it`);
  }
}

function intentFile(context: ToolContext, epoch: number): string {
  return path.join(context.calls, `${context.callId}.${epoch}.edit`);
}

/** Undefined where none was written whole: then the file was not touched. */
async function readIntent(file: string): Promise<z.infer<typeof intentSchema> | undefined> {
  try {
    return intentSchema.parse(JSON.parse(await readFile(file, "utf8")));
  } catch {
    return undefined;
  }
}

function hash(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
