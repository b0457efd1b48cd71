/** A hint that a run may be claimed. Duplicates, losses and hints for finished runs are harmless. */
export interface Hint {
  runId: string;
  generation: number;
}

/** Carries hints from producers to workers. The database decides everything; a queue may lose all it holds. */
export interface Queue {
  /** Resolves when the hints are handed over; rejects, within seconds, when they are not: they can be published again later. */
  publish(hints: Hint[]): Promise<void>;
  /** Resolves at the next hint, after `timeoutMs`, or on abort, whichever is first. Never rejects. */
  wait(timeoutMs: number, signal: AbortSignal): Promise<void>;
  /**
   * A name made at random that lies among the hints. Another than before says that the queue was flushed or is not the
   * same one: what it was told is lost. Rejects as `publish` does.
   */
  getIncarnation(): Promise<string>;
  /** The hints that have waited longest, `limit` at most. Rejects as `publish` does. */
  loadHints(limit: number): Promise<Hint[]>;
  /** Takes out hints that nobody needs; one that somebody has just taken stays. Rejects as `publish` does. */
  removeHints(hints: Hint[]): Promise<void>;
  close(): Promise<void>;
}
