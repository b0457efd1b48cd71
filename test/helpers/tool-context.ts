import { mkdirSync } from "node:fs";
import path from "node:path";
import { localEnvironment } from "../../src/environment/local.ts";
import { builtInTools } from "../../src/tools/built-in.ts";
import { executeCall } from "../../src/tools/execute.ts";
import type { ToolContext, ToolOutput } from "../../src/tools/tool.ts";
import { temporaryFolder } from "./temporary-folder.ts";

/** A context with real folders and a real environment, gone when the test ends. */
export function toolContext(overrides: Partial<ToolContext> = {}): ToolContext {
  const root = temporaryFolder();
  const folders = {
    workspace: path.join(root, "ws"),
    outputs: path.join(root, "data", "runs", "r1", "outputs"),
    calls: path.join(root, "data", "runs", "r1", "calls"),
  };
  for (const folder of Object.values(folders)) mkdirSync(folder, { recursive: true });
  return {
    runId: "r1",
    callId: "1.1",
    epoch: 1,
    key: "r1:1.1",
    ...folders,
    environment: localEnvironment(),
    env: { PATH: process.env.PATH ?? "" },
    commandTimeoutMs: 10_000,
    commandSilenceMs: 10_000,
    maxResultChars: 10_000,
    signal: new AbortController().signal,
    ...overrides,
  };
}

/** Calls a built-in tool the way the loop does; each call of a context needs an own id. */
export async function callTool(
  context: ToolContext,
  name: string,
  input: Record<string, unknown>,
): Promise<ToolOutput> {
  return executeCall({ tools: builtInTools(), name, argumentsText: JSON.stringify(input), context });
}
