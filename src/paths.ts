import path from "node:path";

/** Where everything pawl keeps is: `<dataDir>` and, apart from it, the workspaces. All absolute. */
export interface DataPaths {
  dataDir: string;
  database: string;
  /** One bare mirror a source repository. */
  repos: string;
  /** Parent of every run's workspace; outside of the user's repositories. */
  workspaces: string;
}

/** The files of one run. All absolute. */
export interface RunPaths {
  /** `runs/<id>` in the data directory. */
  dir: string;
  /** Whole outputs of commands and the final patch; the model may read these. */
  outputs: string;
  /** Control files of supervised commands: scripts, start, pid and exit files. */
  calls: string;
  /** The run's own git index and object directory for snapshots. */
  index: string;
  objects: string;
  /** Where the clone goes. A run in place works in the task's directory instead. */
  workspace: string;
}

/** How the draft of a file begins that a tool is about to put in place. One is left where a worker is killed at that. */
export const draftPrefix = ".pawl-draft-";

export function runPaths(paths: DataPaths, runId: string): RunPaths {
  const dir = path.join(paths.dataDir, "runs", runId);
  return {
    dir,
    outputs: path.join(dir, "outputs"),
    calls: path.join(dir, "calls"),
    index: path.join(dir, "index"),
    objects: path.join(dir, "objects"),
    workspace: path.join(paths.workspaces, runId),
  };
}
