import { stat } from "node:fs/promises";
import { z } from "zod";
import { RecoverableError } from "../errors.ts";
import { writeAtomically } from "./atomic-write.ts";
import { confine, displayPath } from "./confine.ts";
import { defineTool } from "./define.ts";

export const writeFileTool = defineTool({
  name: "write_file",
  description:
    "Create a file or replace its whole content. Parent folders are made. To change a part of a file use edit_file.",
  parameters: z.strictObject({
    path: z.string().min(1).describe("Relative to the workspace, or absolute inside of it"),
    content: z.string().describe("The whole content, written exactly as given"),
  }),
  class: "convergent",
  async run({ path, content }, context) {
    const file = await confine(path, [context.workspace]);
    const before = await stat(file).catch(() => undefined);
    if (before !== undefined && !before.isFile()) throw new RecoverableError(`${path} is not a file`);
    await writeAtomically(file, content, context.callId);
    const bytes = Buffer.byteLength(content);
    const shown = await displayPath(file, context.workspace);
    return {
      content: `${before === undefined ? "created" : "replaced"} ${shown} (${bytes} bytes)`,
      note: `${bytes} bytes`,
    };
  },
});
