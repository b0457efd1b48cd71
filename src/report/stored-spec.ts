import type { TaskSpec } from "../producer/task.ts";

/**
 * The task of a run as stored. It was checked when it was written; checking it again would load the schema library, which
 * costs a look command a quarter of its time.
 */
export function storedSpec(run: { spec: string }): TaskSpec {
  return JSON.parse(run.spec) as TaskSpec;
}
