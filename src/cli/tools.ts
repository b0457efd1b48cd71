import { loadConfig } from "../config.ts";
import { gatherTools } from "../offered-tools.ts";
import { flat } from "../report/text.ts";
import { builtInTools } from "../tools/built-in.ts";
import type { Tool } from "../tools/tool.ts";
import { chooseTools } from "../worker/prepare-agent.ts";
import { paint, print, printJson } from "./output.ts";

/** `pawl tools`: what a run would be offered with these settings. */
export async function tools(options: { tools?: string; protocol?: string; json?: boolean }): Promise<void> {
  const { protocol } = options;
  const flags = protocol === undefined ? {} : { protocol };
  const config = await loadConfig({ cwd: process.cwd(), env: process.env, flags });
  const names = options.tools?.split(",").map((name) => name.trim()) ?? null;
  const offered = chooseTools(await gatherTools(config), names, config.protocol ?? "native");
  if (options.json) return printJson({ tools: offered.map(report) });
  for (const tool of offered) for (const line of describe(tool)) print(line);
}

function report(tool: Tool) {
  const { name, class: toolClass, description, parameters } = tool;
  return { name, class: toolClass, source: sourceOf(tool), description, parameters };
}

function sourceOf(tool: Tool): "built-in" | "module" {
  return builtInTools().includes(tool) ? "built-in" : "module";
}

function describe(tool: Tool): string[] {
  const head = `${paint("bold", tool.name)} {${describeParameters(tool.parameters)}}`;
  return [`${head}  ${tool.class}, ${sourceOf(tool)}`, `  ${flat(tool.description)}`];
}

/** `path: string, offset?: integer` */
function describeParameters(schema: Record<string, unknown>): string {
  const { properties = {}, required = [] } = schema as {
    properties?: Record<string, { type?: unknown }>;
    required?: string[];
  };
  return Object.entries(properties)
    .map(
      ([name, { type }]) =>
        `${name}${required.includes(name) ? "" : "?"}: ${[type ?? "any"].flat().join("|")}`,
    )
    .join(", ");
}
