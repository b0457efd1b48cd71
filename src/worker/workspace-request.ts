import { runPaths } from "../paths.ts";
import type { TaskSpec } from "../producer/task.ts";
import type { WorkspaceRequest } from "../workspace/workspace.ts";
import type { Work } from "./execute-run.ts";

/** What to prepare for a run, on behalf of the owner that it has now. */
export function workspaceRequest({ resources, row, claim }: Work, spec: TaskSpec): WorkspaceRequest {
  const { paths, store, logger } = resources;
  const { repo, ref, dir } = spec;
  return {
    paths,
    run: runPaths(paths, row.id),
    repo,
    ref,
    dir,
    confirmOwned: () => store.confirmOwned(claim),
    notice: (event, file) => logger.info(event, { run: row.id, file }),
  };
}
