import path from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";
import { act } from "../../src/agent/act.ts";
import { calls, defineTool, runAgent, say, scriptedModel, type ToolClass } from "../../src/index.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";
import { toolContext } from "../helpers/tool-context.ts";
import { turnOf } from "./fixture.ts";
import { agentOf, firstOwner, openTestStore } from "./owner.ts";

/** Runs three calls of a tool of this class, asked for in one reply; the last asked for is the first to be ready. */
async function threeCalls(toolClass: ToolClass) {
  const answered: string[] = [];
  let running = 0;
  let most = 0;
  const work = defineTool({
    name: "work",
    description: "Works.",
    class: toolClass,
    parameters: z.object({ name: z.string(), turns: z.number() }),
    async run({ name, turns }) {
      running += 1;
      most = Math.max(most, running);
      for (let turn = 0; turn < turns; turn += 1) await new Promise(setImmediate);
      running -= 1;
      answered.push(name);
      return name;
    },
  });
  const asked = [
    { name: "work", arguments: { name: "a", turns: 300 } },
    { name: "work", arguments: { name: "b", turns: 150 } },
    { name: "work", arguments: { name: "c", turns: 1 } },
  ];
  const model = scriptedModel(({ messages }) => {
    const results = messages.filter(({ role }) => role === "tool");
    return results.length === 0 ? calls(asked) : say(results.map(({ content }) => content).join(" "));
  });
  const cwd = temporaryFolder();
  const env = { PATH: process.env.PATH ?? "", PAWL_HOME: path.join(cwd, "data") };
  const run = await runAgent({ prompt: "work" }, { cwd, env, model, tools: [work] });
  return { most, answered, result: run.result };
}

test("read-only calls of one reply run together, and their results stand in the order asked", async () => {
  expect(await threeCalls("pure")).toEqual({ most: 3, answered: ["c", "b", "a"], result: "a b c" });
});

test.each(["convergent", "keyed", "unsafe"] as const)(
  "calls of a tool that is %s run one at a time",
  async (each) => {
    expect(await threeCalls(each)).toEqual({ most: 1, answered: ["a", "b", "c"], result: "a b c" });
  },
);

test("a snapshot is taken with the result of each call that may change something, and recorded where it is news", async () => {
  const store = await openTestStore();
  const owner = await firstOwner(store);
  const tool = (name: string, toolClass: ToolClass) =>
    defineTool({
      name,
      description: name,
      class: toolClass,
      parameters: z.object({}),
      run: async () => name,
    });
  const tools = [tool("look", "pure"), tool("write", "convergent"), tool("run", "unsafe")];
  const names = ["look", "write", "look", "run", "run", "nothing"];
  const wire = names.map((name, at) => ({
    id: `c${at}`,
    type: "function" as const,
    function: { name, arguments: "{}" },
  }));
  const { reply } = turnOf({ content: null, tool_calls: wire }, "tool_calls", []);
  owner.log.appendReply(owner.log.plan("step", "m"), reply, () => "unsafe");
  const trees = ["t1", "t1", "t2"];
  const model = scriptedModel(() => say("unused"));
  const snapshot = async () => trees.shift() ?? "one too many";
  const agent = agentOf(owner, model, { tools, snapshot, contextOf: () => toolContext() });
  await act(agent, [...owner.log.state.pending]);
  await owner.log.committed();
  expect(trees).toEqual([]);
  const replyAt = 3;
  expect(await store.loadSnapshots(owner.claim.runId)).toMatchObject([
    { seq: replyAt + 2, tree: "t1" },
    { seq: replyAt + 5, tree: "t2" },
  ]);
  expect(await store.getRun(owner.claim.runId)).toMatchObject({ tree: "t2" });
});
