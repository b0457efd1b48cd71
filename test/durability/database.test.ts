import { renameSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { createScenario } from "../helpers/scenario.ts";
import { waitUntil } from "../helpers/wait-until.ts";

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

test("a worker whose database is moved away ends with one line, and does not work on in a file that nobody sees", async () => {
  const scenario = await createScenario(() => ({ content: "all done" }));
  await scenario.enqueue(["k"]);
  const worker = scenario.worker({ args: [] });
  await waitUntil(async () => (await scenario.json("show", "k"))[0]?.status === "succeeded", {
    timeoutMs: 20_000,
    what: "it works",
  });
  const home = path.join(scenario.folder, "data");
  renameSync(home, `${home}-moved`);
  expect((await worker.ended()).code).toBe(2);
  expect(worker.stderr().trim().split("\n").at(-1)).toMatch(/^pawl: expected pawl's database to stay at/);
});
