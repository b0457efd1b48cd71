/** Wrong use or configuration: shown as one line, exit code 2. The message says what was expected, what was got and what to do. */
export class ConfigError extends Error {
  override name = "ConfigError";
}

/** The database file cannot be used. No run is to blame for it, so none may be ended by it. */
export class DatabaseError extends ConfigError {
  override name = "DatabaseError";
}

/** The run belongs to another owner now, or the lease has run out: whoever gets this stops and writes nothing more. */
export class LeaseLostError extends Error {
  override name = "LeaseLostError";
}

/** The workspace cannot be made or read (no such repository, no such ref, no commits). Ends the run as `workspace_error`. */
export class WorkspaceError extends Error {
  override name = "WorkspaceError";
}

/** Why a model request failed. `retry` and `quota` may succeed later, the others will not without a change. */
export type ModelErrorKind = "retry" | "quota" | "overflow" | "refused" | "invalid" | "auth";

/** What a server may say that it, or the model, does not support. */
export type Unsupported = "tools" | "stream" | "stream_options";

interface ModelErrorOptions {
  retryAfterMs?: number | undefined;
  isLimit?: boolean;
  mayBeBilled?: boolean | undefined;
  unsupported?: Unsupported | undefined;
  cause?: unknown;
}

/** A model request that failed, classified from the response's status and body. */
export class ModelError extends Error {
  override name = "ModelError";
  readonly kind: ModelErrorKind;
  /** How long the provider asked to wait, in milliseconds. */
  readonly retryAfterMs: number | undefined;
  /** Whether the provider may have done the work all the same, and count it. Unless said, so where a retry is of use. */
  readonly mayBeBilled: boolean;
  /** Why it was refused, where that is something that can be done without. */
  readonly unsupported: Unsupported | undefined;
  /** Whether it says that too much is asked of the provider, whatever was asked. */
  readonly isLimit: boolean;

  constructor(kind: ModelErrorKind, message: string, options: ModelErrorOptions = {}) {
    super(message, { cause: options.cause });
    this.kind = kind;
    this.retryAfterMs = options.retryAfterMs;
    this.isLimit = options.isLimit ?? false;
    this.mayBeBilled = options.mayBeBilled ?? (kind === "retry" && !this.isLimit);
    this.unsupported = options.unsupported;
  }
}

/** No model may be asked now, and for so long that the run gives its place in the worker away: it waits. */
export class ModelWait extends Error {
  override name = "ModelWait";
  readonly kind: "quota" | "auth" | "timer";
  /** Epoch milliseconds; null where only people can say. */
  readonly wakeAt: number | null;

  constructor(kind: ModelWait["kind"], note: string, wakeAt: number | null) {
    super(note);
    this.kind = kind;
    this.wakeAt = wakeAt;
  }
}

/** Thrown by a tool: the message goes back to the model as an error result and the loop goes on. */
export class RecoverableError extends Error {
  override name = "RecoverableError";
}

/** Thrown by a tool: the run ends here, gracefully, with reason `ended_by_tool` and this message as its error. */
export class TerminatingError extends Error {
  override name = "TerminatingError";
}

/** The message of anything that was thrown. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
