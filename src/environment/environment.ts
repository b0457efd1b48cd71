/** One shell command of one tool call. */
export interface Command {
  /** Base path of the control files, unique to call and epoch: `<calls>/<step>.<ordinal>.<epoch>`. */
  base: string;
  /** Where stdout and stderr go, merged in order; kept whole. */
  outputFile: string;
  script: string;
  cwd: string;
  env: Record<string, string>;
  /** After this the command's process group is ended: TERM, two seconds, KILL. Enforced by the supervisor, so without us too. */
  timeoutMs: number;
  /** A command that has written nothing for so long is ended the same way. */
  silenceMs: number;
}

/** How a command ended. `exitCode` is null where a signal ended it or nobody knows. */
export interface CommandResult {
  exitCode: number | null;
  /** Name of the signal that ended it, such as SIGKILL. */
  signal: string | null;
  timedOut: boolean;
  /** Whether it was ended because it had written nothing for too long. */
  fellSilent: boolean;
  /** How long before its end it wrote last, in milliseconds; null where nobody recorded an end. */
  quietMs: number | null;
  /** Where its shell was in the end, if that was not where it began. */
  finalFolder: string | null;
  outputFile: string;
}

/**
 * What the files say of a command that an earlier owner may have started.
 * - `not_started`: it never ran and now never will (we hold its start file).
 * - `finished`: it ended; the result can be harvested.
 * - `running`: its supervisor is alive.
 * - `lost`: it started, its supervisor is gone and nobody knows how it ended.
 */
export type CommandState =
  | { state: "not_started" }
  | { state: "finished"; result: CommandResult }
  | { state: "running"; startedAt: number }
  | { state: "lost"; startedAt: number | null };

/** Where commands run. All verbs work from the files alone, so that any process can use them. */
export interface Environment {
  name: string;
  /** Starts the command under its supervisor and returns at once; throws only if nothing was started. */
  start(command: Command): Promise<void>;
  /** Waits for its end. An abort rejects with the signal's reason and leaves the command alone. */
  wait(command: Pick<Command, "base" | "outputFile">, signal: AbortSignal): Promise<CommandResult>;
  /** Ends the whole process group: TERM, grace, KILL. Returns when nothing of it is left. */
  kill(command: Pick<Command, "base" | "outputFile">): Promise<void>;
  /** Looks what became of a command, and makes sure that one that did not start never will. */
  find(command: Pick<Command, "base" | "outputFile">): Promise<CommandState>;
  /** Whether a command with its control files in this folder runs. For whoever does not own it: changes nothing. */
  hasRunning(folder: string): Promise<boolean>;
}
