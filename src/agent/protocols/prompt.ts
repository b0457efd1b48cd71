import { readFile } from "node:fs/promises";
import type { ToolSchema } from "../../model/model.ts";
import type { ProtocolName } from "../../protocol-name.ts";
import type { Protocol } from "./protocol.ts";

/**
 * The system prompt of a run. `{{protocol}}` in the template becomes how to act and to end, `{{tools}}` the list of tools. A
 * template that does not ask for it gets it appended where the model could not know otherwise: in the text protocols.
 */
export async function systemPrompt(input: {
  protocol: Protocol;
  template: string;
  tools: ToolSchema[];
}): Promise<string> {
  const { protocol, template, tools } = input;
  const isTold = template.includes(placeholder) || protocol.name === "native";
  const whole = isTold ? template : `${template.trimEnd()}\n\n${placeholder}`;
  const guide = await loadPrompt(protocol.name);
  return whole
    .replaceAll(placeholder, () => guide)
    .replaceAll("{{tools}}", () => protocol.describeTools(tools));
}

/** A text that ships: `agent` is the template every protocol shares, the others say how to act in one. */
export async function loadPrompt(name: "agent" | ProtocolName): Promise<string> {
  const text = await readFile(new URL(`../prompts/${name}.md`, import.meta.url), "utf8");
  return text.trim();
}

const placeholder = "{{protocol}}";
