import type { Config } from "./config.ts";
import { builtInTools } from "./tools/built-in.ts";
import type { Tool } from "./tools/tool.ts";

/**
 * The tools that every run is offered whose task names none: the built-in ones, those of the configuration, and a program's
 * own. One of the user's goes before a built-in one of the same name. Throws ConfigError naming the module.
 */
export async function gatherTools(
  config: Config,
  own: { tools?: Tool[]; useBuiltInTools?: boolean } = {},
): Promise<Tool[]> {
  const configured =
    config.tools.length === 0 ? [] : await (await import("./modules.ts")).loadTools(config.tools);
  const added = [...configured, ...(own.tools ?? [])];
  const builtIn = own.useBuiltInTools === false ? [] : builtInTools();
  return [...builtIn.filter((tool) => !added.some((each) => each.name === tool.name)), ...added];
}
