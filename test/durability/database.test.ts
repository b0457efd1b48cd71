import { expect, test } from "vitest";
import { createScenario } from "../helpers/scenario.ts";

test("a worker whose database fails for good ends with an error, and does not linger with its lease", async () => {
  const scenario = await createScenario(() => ({ content: "all done" }));
  await scenario.enqueue(["k"]);
  await scenario.worker().ended();
  const idle = scenario.worker({ args: [] });
  await idle.says("takes up to");
  scenario.database().exec("ALTER TABLE runs RENAME TO gone");
  expect((await idle.ended()).code).toBe(1);
  expect(idle.stderr()).toContain("no such table");
});
