import { bashTool } from "./bash.ts";
import { editFileTool } from "./edit-file.ts";
import { listFilesTool } from "./list-files.ts";
import { readFileTool } from "./read-file.ts";
import type { Tool } from "./tool.ts";
import { writeFileTool } from "./write-file.ts";

/** The tools every agent has unless its task says otherwise. */
export function builtInTools(): Tool[] {
  return [bashTool, readFileTool, writeFileTool, editFileTool, listFilesTool];
}
