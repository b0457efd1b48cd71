/** Why work on a run is broken off. The first three end the run; the other two leave it to its next owner. */
export type AbortKind = "cancel" | "time_limit" | "crash_loop" | "shutdown" | "lease_lost";

/** The reason of a run's AbortSignal. */
export class RunAborted extends Error {
  override name = "RunAborted";
  readonly kind: AbortKind;

  constructor(kind: AbortKind) {
    super(`the run was broken off: ${kind.replace("_", " ")}`);
    this.kind = kind;
  }

  /** True where the run ends here; false where commands must be left alone for the next owner. */
  get endsRun(): boolean {
    return this.kind !== "shutdown" && this.kind !== "lease_lost";
  }
}
