import type { TestProject } from "vitest/node";
import { redisMark, skippedNotice } from "./redis.ts";

/** After the tests, says which of them were skipped for want of Redis: the usual report only counts them. */
export default function setup(project: TestProject): () => void {
  return () => {
    const titles = project.vitest.state
      .getTestModules()
      .flatMap((module) => [...module.children.allTests("skipped")])
      .map((test) => test.fullName)
      .filter((name) => name.includes(redisMark));
    process.stderr.write(skippedNotice(titles));
  };
}
