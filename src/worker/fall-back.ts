import { estimateTokens, messageOverheadTokens } from "../model/tokens.ts";
import { specSchema } from "../producer/task.ts";
import { chooseTools, type Prepared } from "./prepare-agent.ts";
import { promptOf, protocolChanged } from "./run-prompt.ts";

/**
 * Begins a run anew in ReAct, as its model takes no tools. Nothing has been said yet, so only the prompt is another, and
 * what was fixed of the protocol. One commit: a worker that is killed before it asks once more in vain, one that is killed
 * after it goes on in ReAct.
 */
export async function fallBack(prepared: Prepared, why: string): Promise<Prepared> {
  const { work, binding } = prepared;
  const { resources, claim } = work;
  const { store, logger, redact } = resources;
  binding.fit.onToolsRefused?.(why);
  const before = await readRun(prepared);
  const { fixed, ...task } = specSchema.parse(JSON.parse(before.spec));
  if (fixed === undefined) throw new Error(`expected run ${before.id} to have begun`);
  const spec = { ...task, fixed: { ...fixed, protocol: "react" as const } };
  const next = { ...prepared, spec, binding: await resources.bindModel(spec, work.controller.signal) };
  const prompt = await promptOf(next, chooseTools(resources.tools, spec.tools, "react"));
  const event = protocolChanged(redact(why));
  await store.changePrompt(claim, {
    prompt: JSON.stringify(prompt),
    spec: JSON.stringify(spec),
    seq: before.seq + 1,
    tokens: messageOverheadTokens + estimateTokens(prompt.system),
    event,
  });
  logger.info("protocol.changed", { run: before.id, ...event.data });
  return { ...next, work: { ...work, row: await readRun(prepared) } };
}

async function readRun({ work }: Prepared) {
  const row = await work.resources.store.getRun(work.row.id);
  if (row === undefined) throw new Error(`expected run ${work.row.id} to be there`);
  return row;
}
