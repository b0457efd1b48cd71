import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { RunAborted } from "../abort.ts";
import { LeaseLostError, messageOf, RecoverableError, TerminatingError } from "../errors.ts";
import { readArguments } from "./arguments.ts";
import { storable } from "./clean-text.ts";
import type { Tool, ToolContext, ToolOutput } from "./tool.ts";
import { truncate } from "./truncate.ts";

export interface CallOptions {
  tools: Tool[];
  name: string;
  /** JSON text as the model wrote it; it may not parse. */
  argumentsText: string;
  context: ToolContext;
}

/** What to do about a call that an earlier owner started: run it (again), or record the output. */
export type Recovery =
  | { kind: "run" }
  | { kind: "done"; output: ToolOutput }
  /** Nobody knows how it ended. */
  | { kind: "unknown"; detail: string };

/** After an abort that ends the run a tool has this long to come back by itself; commands need most of it to be ended. */
const endGraceMs = 5_000;
/** A worker that goes leaves commands to the next owner; other tools have a moment. */
const leaveGraceMs = 500;

/**
 * Runs one call and answers it, whatever the model sent: wrong names, wrong arguments and failing tools become error
 * results. Rejects only with TerminatingError, LeaseLostError or the reason of the context's signal.
 */
export async function executeCall(options: CallOptions): Promise<ToolOutput> {
  const { context } = options;
  try {
    context.signal.throwIfAborted();
    const { tool, input } = prepare(options);
    const value = await withinAbort(tool.run(input, context), context.signal);
    return await capped(toOutput(value), context);
  } catch (thrown) {
    return failure(thrown, context);
  }
}

/** Answers a call that an earlier owner started at `startedEpoch`, by the tool's own knowledge or its class. Rejects as executeCall does. */
export async function recoverCall(options: CallOptions & { startedEpoch: number }): Promise<Recovery> {
  const { context, startedEpoch } = options;
  try {
    // A tool that is gone since may have done anything.
    if (findTool(options.tools, options.name) === undefined)
      return unknown("The tool is no longer there to ask.");
    const { tool, input } = prepare(options);
    if (tool.recover === undefined) {
      // Whatever a tool that was not made by defineTool calls itself: only what is known to be harmless is run again.
      const isHarmless = ["pure", "convergent", "keyed"].includes(tool.class);
      return isHarmless ? { kind: "run" } : unknown("Its worker was ended while it ran.");
    }
    const recovered = await withinAbort(tool.recover(input, context, startedEpoch), context.signal);
    if (recovered.kind === "not_started") return { kind: "run" };
    if (recovered.kind === "unknown") return unknown(recovered.detail);
    return { kind: "done", output: await capped(recovered.output, context) };
  } catch (thrown) {
    // Thrown on for an abort, a lost lease, a tool that ends the run. Otherwise nobody knows, and it may run still.
    failure(thrown, context);
    return unknown(messageOf(thrown));
  }
}

/** The tool of this name, exactly: what servers put around a name was taken off when the reply was read. */
export function findTool(tools: Tool[], name: string): Tool | undefined {
  return tools.find((tool) => tool.name === name);
}

function unknown(detail: string): Recovery {
  return { kind: "unknown", detail: storable(detail) };
}

function prepare(options: CallOptions): { tool: Tool; input: unknown } {
  const tool = findTool(options.tools, options.name);
  if (tool === undefined) {
    const names = options.tools.map((known) => known.name).join(", ");
    throw new RecoverableError(
      `there is no tool ${JSON.stringify(options.name)}; the tools are: ${names || "none"}`,
    );
  }
  const read = readArguments(options.argumentsText);
  if ("problem" in read) throw new RecoverableError(read.problem);
  return { tool, input: tool.parse(read.input) };
}

/** The promise's outcome, or the abort's reason where the tool does not heed the signal. */
async function withinAbort<Value>(work: Promise<Value>, signal: AbortSignal): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  let onAbort = () => {};
  const aborted = new Promise<never>((_resolve, reject) => {
    onAbort = () => {
      const endsRun = signal.reason instanceof RunAborted && signal.reason.endsRun;
      timer = setTimeout(() => reject(signal.reason), endsRun ? endGraceMs : leaveGraceMs);
    };
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort, { once: true });
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
  }
}

/** A user's tool is not bound by our types: whatever it returns becomes text. */
function toOutput(value: unknown): ToolOutput {
  if (typeof value === "string") return { content: value };
  if (isOutput(value)) return value;
  return { content: value === undefined ? "" : JSON.stringify(value, null, 2) };
}

function isOutput(value: unknown): value is ToolOutput {
  return (
    typeof value === "object" && value !== null && "content" in value && typeof value.content === "string"
  );
}

/** Bounds a result before it is recorded; what is cut stays readable in the run's outputs. */
async function capped(output: ToolOutput, context: ToolContext): Promise<ToolOutput> {
  const content = storable(output.content);
  if (content === "") return { ...output, content: "(no output)" };
  const maxChars = context.maxResultChars;
  if (content.length <= maxChars) return { ...output, content };
  const file = path.join(context.outputs, `${context.callId}.txt`);
  const hint = await mkdir(context.outputs, { recursive: true })
    .then(() => writeFile(file, content))
    .then(() => `the whole result is in ${file}`)
    .catch((error: unknown) => `the whole could not be kept: ${messageOf(error)}`);
  return { ...output, content: truncate(content, { maxChars, hint }) };
}

function failure(thrown: unknown, context: ToolContext): ToolOutput {
  if (context.signal.aborted) throw context.signal.reason;
  if (thrown instanceof LeaseLostError) throw thrown;
  // By name too: a user's tool may come with its own copy of this package.
  if (thrown instanceof Error && thrown.name === "TerminatingError") {
    throw thrown instanceof TerminatingError
      ? thrown
      : new TerminatingError(thrown.message, { cause: thrown });
  }
  const content = truncate(storable(`Error: ${messageOf(thrown)}`), {
    maxChars: context.maxResultChars,
    hint: "the error is longer than a result may be",
  });
  return { content, isError: true, note: "error" };
}
