import { readFile } from "node:fs/promises";
import type { Protocol } from "./protocol.ts";

/** The system prompt that ships for a protocol: a template for `Protocol.systemPrompt`, the same for every run. */
export async function loadPrompt(protocol: Protocol["name"]): Promise<string> {
  const text = await readFile(new URL(`../prompts/${protocol}.md`, import.meta.url), "utf8");
  return text.trim();
}
