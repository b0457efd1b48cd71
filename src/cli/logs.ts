import { setTimeout as sleep } from "node:timers/promises";
import { reasoningText, replyText } from "../agent/protocols/reply-text.ts";
import { textOf } from "../agent/task-images.ts";
import type { Store } from "../db/store.ts";
import { isTerminal } from "../outcome.ts";
import { flat, printable } from "../report/text.ts";
import { readTimeline, type TimelineEntry } from "../report/timeline.ts";
import { withStore } from "./look.ts";
import { exitOnInterrupt, paint, print, printJson } from "./output.ts";

const followPollMs = 100;

/** `pawl logs RUN`: its messages and events in order; with `-f` until it ends. */
export async function logs(reference: string, options: { follow?: boolean; json?: boolean }): Promise<void> {
  await withStore(async ({ store }) => {
    const run = await store.findRun(reference);
    if (options.follow) exitOnInterrupt();
    const write = (entry: TimelineEntry) => (options.json ? printJson(entry) : print(describeEntry(entry)));
    await followRun(store, run.id, { write, follow: options.follow ?? false });
  });
}

/** Writes what there is and, with `follow`, what comes until the run has ended. */
export async function followRun(
  store: Store,
  runId: string,
  options: { write(entry: TimelineEntry): void; follow: boolean; signal?: AbortSignal },
): Promise<void> {
  const cursor = { seq: 0, eventId: 0 };
  for (;;) {
    // Looked up before the log is read: what an ended run logged is then all there.
    const status = (await store.getRun(runId))?.status ?? "cancelled";
    for (const entry of await readTimeline(store, runId, cursor)) options.write(entry);
    if (!options.follow || isTerminal(status) || options.signal?.aborted) return;
    await sleep(followPollMs);
  }
}

export function describeEntry(entry: TimelineEntry): string {
  const step = entry.step === null ? "" : ` step ${entry.step}`;
  const head = `${entry.at} ${paint("bold", entry.kind)}${paint("dim", step)}`;
  if (entry.type === "event") {
    const facts = Object.entries(entry.data as Record<string, unknown>);
    return [
      head,
      ...facts.map(
        ([name, value]) => `${name}=${typeof value === "string" ? flat(value) : JSON.stringify(value)}`,
      ),
    ].join(" ");
  }
  return [head, ...describeMessage(entry.data as Record<string, unknown>)].join("\n");
}

function describeMessage(body: Record<string, unknown>): string[] {
  const calls = Array.isArray(body.tool_calls)
    ? (body.tool_calls as { function: { name: string; arguments: string } }[])
    : [];
  const reasoning = body.role === "assistant" ? reasoningText({ ...body, role: "assistant" }) : "";
  const text = reasoning !== "" ? replyText({ ...body, role: "assistant" }) : textOf(body.content);
  return [
    ...(reasoning ? [paint("dim", indent(reasoning))] : []),
    ...(text ? [indent(text)] : []),
    ...calls.map((call) => paint("cyan", indent(`→ ${call.function.name} ${call.function.arguments}`))),
  ];
}

function indent(text: string): string {
  return printable(text).replace(/^/gm, "  ");
}
