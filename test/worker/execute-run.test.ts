import path from "node:path";
import { expect, test } from "vitest";
import { call, runAgent, scriptedModel } from "../../src/index.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

test("a fault of the program ends the run as environment_error, and what the agent did is still listed", async () => {
  const cwd = temporaryFolder();
  const model = scriptedModel(({ messages }) => {
    if (messages.some(({ role }) => role === "assistant")) throw new Error("the model's own code is broken");
    return call("write_file", { path: "made.txt", content: "made" });
  });
  const env = { PATH: process.env.PATH ?? "", PAWL_HOME: path.join(cwd, "data") };
  const run = await runAgent({ prompt: "make a file" }, { cwd, env, model });
  expect(run).toMatchObject({
    status: "failed",
    reason: "environment_error",
    error: "the model's own code is broken",
    changedFiles: ["made.txt"],
  });
});
