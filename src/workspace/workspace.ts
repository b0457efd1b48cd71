import type { DataPaths, RunPaths } from "../paths.ts";
import type { LockNotice } from "./lock.ts";
import type { WorkspaceNews } from "./record.ts";

/** Where a run works, as prepared by its first owner. */
export interface Workspace {
  kind: "clone" | "dir" | "empty";
  path: string;
  /** Commit the clone stands on; null without a repository. */
  baseCommit: string | null;
  /** Tree of the first snapshot; null where no snapshot can be taken (then the changed files are unknown). */
  baseTree: string | null;
  /** Things a person and the model should know: what was left out of a dirty checkout, missing submodules. */
  notes: string[];
  /** What happened to it between owners, as far as it is not known to be told. */
  news?: WorkspaceNews[];
  /**
   * The snapshots that the log speaks of are gone, as where a database goes on from a backup without its other files: what
   * the model must know of it. The files are what they were first.
   */
  reset?: string;
}

export interface WorkspaceRequest {
  paths: DataPaths;
  run: RunPaths;
  /** Path or URL of the source; the run gets its own clone. */
  repo: string | null;
  /** Branch, tag or commit of `repo`; null is its HEAD. */
  ref: string | null;
  /** Work here, in place. Excludes `repo`. */
  dir: string | null;
  /** The run's last snapshot, by its log: what a folder that is gone is made anew from. Null is the first one. */
  lastTree?: string | null;
  /** The end of the run's log. */
  lastSeq?: number;
  /** The commit the run began on; null where it has not begun. */
  baseCommit?: string | null;
  /** The run whose workspace this one begins with, for a fork. */
  origin?: WorkspaceOrigin | null;
  /** Throws LeaseLostError if the run belongs to another owner by now, who must find nothing changed. */
  confirmOwned?: (() => Promise<void>) | undefined;
  notice?: LockNotice | undefined;
}

export interface WorkspaceOrigin {
  run: RunPaths;
  /** Snapshots to take over; the last one is what the workspace begins with. */
  trees: string[];
}

/** What a run leaves behind. */
export interface Products {
  tree: string | null;
  headCommit: string | null;
  branch: string | null;
  /** Relative paths, sorted; null where they cannot be known. */
  changedFiles: string[] | null;
  notes: string[];
}
