import type { Environment } from "../environment/environment.ts";
import type { ToolSchema } from "../model/model.ts";

/**
 * What may happen to a call that was running when its worker died.
 * - `pure`: only reads; run again.
 * - `convergent`: running it again ends in the same state; run again.
 * - `keyed`: the target deduplicates by `context.key`; run again with the same key.
 * - `unsafe` (default): never run again; the model is told that the outcome is unknown.
 */
export const toolClasses = ["pure", "convergent", "keyed", "unsafe"] as const;
export type ToolClass = (typeof toolClasses)[number];

/** What a tool may use. Paths are absolute. */
export interface ToolContext {
  runId: string;
  /** `<step>.<ordinal>`. */
  callId: string;
  epoch: number;
  /** Idempotency key: the same for every try of this call. */
  key: string;
  workspace: string;
  /** Whole outputs of this run's commands. */
  outputs: string;
  /** Control files of supervised commands. */
  calls: string;
  environment: Environment;
  /** Environment variables for commands. */
  env: Record<string, string>;
  /** Default time limit of a command in milliseconds. */
  commandTimeoutMs: number;
  /** A command that has written nothing for so long is ended, in milliseconds. */
  commandSilenceMs: number;
  /** A result longer than this is cut when it is recorded. */
  maxResultChars: number;
  /** Aborted when the run is cancelled, its time is over, or the worker stops; the reason says which. */
  signal: AbortSignal;
}

/** What goes back to the model. A plain string is the content of a success. */
export interface ToolOutput {
  content: string;
  isError?: boolean;
  /** A few words for people: `exit 1`, `212 lines`. */
  note?: string;
}

export interface Tool<Arguments = unknown> extends ToolSchema {
  class: ToolClass;
  /** Checks what the model sent; throws RecoverableError that says what was expected and what was got. */
  parse(value: unknown): Arguments;
  run(input: Arguments, context: ToolContext): Promise<string | ToolOutput>;
  /**
   * For a tool whose work outlives the worker: what became of a call that an earlier owner (at `epoch`) started.
   * `not_started` means that it is certain that nothing happened; `unknown` carries what is known.
   */
  recover?(
    input: Arguments,
    context: ToolContext,
    startedEpoch: number,
  ): Promise<
    { kind: "not_started" } | { kind: "done"; output: ToolOutput } | { kind: "unknown"; detail: string }
  >;
}
