import type { Prompt } from "../agent/next-action.ts";
import { systemPrompt } from "../agent/protocols/prompt.ts";
import type { RunEvent } from "../db/run-events.ts";
import type { TaskSpec } from "../producer/task.ts";
import type { Tool } from "../tools/tool.ts";
import type { Work } from "./execute-run.ts";
import type { ModelBinding } from "./model-binding.ts";

/** System prompt and tools of a run, as its model is told of them. */
export async function promptOf(
  { work, spec, binding }: { work: Work; spec: TaskSpec; binding: ModelBinding },
  tools: Tool[],
): Promise<Prompt> {
  const schemas = tools.map(({ name, description, parameters }) => ({ name, description, parameters }));
  const template = spec.systemPrompt ?? work.resources.systemPrompt;
  const { protocol } = binding;
  return { system: await systemPrompt({ protocol, template, tools: schemas }), tools: schemas };
}

/** That a run is in ReAct although nobody chose it, and why. */
export function protocolChanged(why: string): RunEvent {
  return { kind: "protocol_changed", data: { from: "native", to: "react", why } };
}
