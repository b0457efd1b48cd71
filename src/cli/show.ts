import { freedKind } from "../db/freed.ts";
import type { EventRow, ModelCallRow } from "../db/read.ts";
import { byteSize } from "../disk.ts";
import type { TaskImage } from "../producer/task.ts";
import { notesOf, phaseOf, type RunReport, reportRun } from "../report/run-view.ts";
import { storedSpec } from "../report/stored-spec.ts";
import { copied, counted, duration, flat } from "../report/text.ts";
import { describeCost } from "../report/usage.ts";
import { withStore } from "./look.ts";
import { paint, print, printJson } from "./output.ts";

/** `pawl show RUN`: all that is known of a run. */
export async function show(reference: string, options: { json?: boolean }): Promise<void> {
  await withStore(async ({ paths, store }) => {
    const row = await store.findRun(reference);
    const run = reportRun(row, paths, await phaseOf(store, row));
    const events = await store.loadEvents({ runId: row.id });
    const freed = findFreed(events);
    if (options.json)
      return printJson({
        ...run,
        workspace: { ...run.workspace, ...(freed && { freedAt: freed.at }) },
      });
    const { copiedSteps } = row;
    const asked = describeAsked(await store.loadModelCalls(row.id), row.model);
    const facts = { prompt: storedSpec(row).prompt, events, notes: notesOf(row), copiedSteps, freed, asked };
    for (const line of describe(run, facts)) print(line);
  });
}

/** When the workspace was deleted to make room, and the repository that has its commits. */
function findFreed(events: EventRow[]): { at: string; repository: string } | null {
  const event = events.find(({ kind }) => kind === freedKind);
  if (event === undefined) return null;
  const { repository } = JSON.parse(event.data ?? "{}") as { repository?: unknown };
  return { at: new Date(event.at).toISOString(), repository: String(repository) };
}

interface Facts {
  prompt: string;
  events: EventRow[];
  notes: string[];
  copiedSteps: number;
  freed: ReturnType<typeof findFreed>;
  asked: string | null;
}

/** How often each model was asked, where it was not always the run's own. */
function describeAsked(calls: ModelCallRow[], own: string | null): string | null {
  if (calls.every(({ model }) => model === own)) return null;
  const models = [...new Set(calls.map(({ model }) => model))];
  return models
    .map((name) => `${name} ${counted(calls.filter(({ model }) => model === name).length, "time")}`)
    .join(", ");
}

function describe(run: RunReport, { prompt, events, notes, copiedSteps, freed, asked }: Facts): string[] {
  const end = run.finishedAt === null ? Date.now() : Date.parse(run.finishedAt);
  const { path, branch, base, head } = run.workspace;
  const facts: [string, string | null][] = [
    ["run", run.id],
    ["key", run.key && flat(run.key)],
    ["batch", run.batch && flat(run.batch)],
    ["attempt", run.attempt > 1 ? String(run.attempt) : null],
    [
      "status",
      [run.status, run.reason && `(${run.reason})`, run.status === "running" && run.phase && `· ${run.phase}`]
        .filter(Boolean)
        .join(" "),
    ],
    [
      "waits for",
      run.waiting &&
        [run.waiting.kind, run.waiting.note, run.waiting.wakeAt, `go on: pawl resume ${run.id}`]
          .filter(Boolean)
          .join(" · "),
    ],
    ["steps", `${run.steps} of ${run.maxSteps}${copied(copiedSteps)}`],
    ["model", run.model],
    ["asked", asked],
    ["protocol", run.protocol],
    ["parameters", describeParameters(run.modelParameters)],
    [
      "tokens",
      `${run.usage.promptTokens} in (${run.usage.cachedTokens} cached), ${run.usage.completionTokens} out`,
    ],
    ["cost", run.usage.promptTokens + run.usage.completionTokens > 0 ? describeCost(run.usage) : null],
    ["workspace", path && (freed ? `${path} (deleted to make room at ${freed.at})` : path)],
    ["branch", branch && (freed ? `${branch} in ${freed.repository}` : branch)],
    ["commits", base && `${base.slice(0, 12)}${head && head !== base ? ` → ${head.slice(0, 12)}` : ""}`],
    ["changed", run.changedFiles && (run.changedFiles.map(flat).join(", ") || "nothing")],
    ["created", run.createdAt],
    ["took", run.startedAt && duration(end - Date.parse(run.startedAt))],
  ];
  const lines = facts.flatMap(([name, value]) =>
    value ? [`${paint("dim", name.padEnd(10))} ${value}`] : [],
  );
  const sections: [string, string | null][] = [
    ["task", prompt],
    ["images", run.images.map(describeImage).join("\n")],
    ["result", run.result],
    ["error", run.error],
    ["notes", notes.join("\n")],
    ["what happened", events.map(describeEvent).join("\n")],
  ];
  return [...lines, ...sections.flatMap(([name, text]) => (text ? ["", paint("bold", name), text] : []))];
}

function describeImage(image: TaskImage): string {
  return flat("url" in image ? image.url : `${image.name} (${image.type}, ${byteSize(image.bytes)})`);
}

function describeParameters(parameters: RunReport["modelParameters"]): string | null {
  return Object.keys(parameters ?? {}).length === 0 ? null : flat(JSON.stringify(parameters));
}

function describeEvent(event: EventRow): string {
  const facts = event.data === null ? {} : (JSON.parse(event.data) as Record<string, unknown>);
  const epoch = event.epoch === null ? "" : ` epoch ${event.epoch}`;
  const worker = event.workerId === null ? "" : ` worker ${event.workerId}`;
  const pairs = Object.entries(facts).map(([name, value]) => ` ${name}=${flat(value)}`);
  return `${new Date(event.at).toISOString()} ${event.kind}${epoch}${worker}${pairs.join("")}`;
}
