/** Why work on a run is broken off. `cancel` and `time_limit` end the run; the other two leave it to its next owner. */
export type AbortKind = "cancel" | "time_limit" | "shutdown" | "lease_lost";

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
    return this.kind === "cancel" || this.kind === "time_limit";
  }
}
