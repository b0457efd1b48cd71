import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { applyMessage, emptyState, nextAction } from "../../src/agent/next-action.ts";
import { nativeProtocol } from "../../src/agent/protocols/native.ts";
import {
  call,
  calls,
  defineTool,
  RecoverableError,
  runAgent,
  say,
  scriptedModel,
  TerminatingError,
} from "../../src/index.ts";
import { defaultBaseUrl, profileOf } from "../../src/model/profiles.ts";
import { openPawl } from "../../src/pawl.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const stop = defineTool({
  name: "stop",
  description: "Ends the run.",
  parameters: { type: "object", properties: {} },
  run: async () => {
    throw new TerminatingError("the account is closed");
  },
});

function homeOf(folder: string) {
  return { cwd: folder, env: { PATH: process.env.PATH, PAWL_HOME: path.join(folder, "data") } };
}

describe("runAgent", () => {
  test("a tool that throws TerminatingError ends the run as ended_by_tool, and the calls behind it are not run", async () => {
    const folder = temporaryFolder();
    const model = scriptedModel(() =>
      calls([
        { name: "stop", arguments: {} },
        { name: "bash", arguments: { command: "touch after" } },
      ]),
    );
    const run = await runAgent({ prompt: "go", dir: folder }, { ...homeOf(folder), model, tools: [stop] });
    expect(run).toMatchObject({
      status: "failed",
      reason: "ended_by_tool",
      error: "the account is closed",
      steps: 1,
    });
    expect(run.changedFiles).not.toContain("after");
  });

  test("the log says that a tool ended the run, so that the next owner does not go on", async () => {
    const folder = temporaryFolder();
    const model = scriptedModel(() => call("stop", {}));
    const pawl = await openPawl({ ...homeOf(folder), model, tools: [stop] });
    const [created] = await pawl.enqueue({ prompt: "go" });
    await (await pawl.startWorker({ drain: true })).done;
    const rows = await pawl.store.loadMessages(created?.id ?? "");
    await pawl.close();
    const state = emptyState();
    for (const row of rows) applyMessage(state, row, nativeProtocol(profileOf(defaultBaseUrl)));
    const action = nextAction(state, { maxSteps: 100 });
    expect(action).toMatchObject({
      kind: "finish",
      outcome: { reason: "ended_by_tool", error: "the account is closed" },
    });
    expect(JSON.stringify(state.entries)).not.toContain("ends_run");
  });

  test("a tool that throws RecoverableError is answered as an error and the loop goes on", async () => {
    const folder = temporaryFolder();
    const picky = defineTool({
      name: "picky",
      description: "Fails.",
      parameters: { type: "object", properties: {} },
      run: async () => {
        throw new RecoverableError("expected a city, got none");
      },
    });
    const model = scriptedModel((request, n) => {
      if (n === 1) return call("picky", {});
      return say(`saw: ${JSON.stringify(request.messages.at(-1)?.content)}`);
    });
    const run = await runAgent({ prompt: "go" }, { ...homeOf(folder), model, tools: [picky] });
    expect(run.result).toContain("expected a city, got none");
  });

  test("read-only neighbours of one reply run together, and their results come in the order asked", async () => {
    const folder = temporaryFolder();
    let open = 0;
    let most = 0;
    const arrived: (() => void)[] = [];
    const look = defineTool({
      name: "look",
      description: "Waits until both are there.",
      parameters: { type: "object", properties: { n: { type: "number" } } },
      class: "pure",
      run: async ({ n }) => {
        open += 1;
        most = Math.max(most, open);
        if (open === 2) for (const go of arrived) go();
        else await new Promise<void>((resolve) => arrived.push(resolve));
        return `look ${String(n)}`;
      },
    });
    const model = scriptedModel((request, n) => {
      const look = (number: number) => ({ name: "look", arguments: { n: number } });
      if (n === 1) return calls([look(1), look(2)]);
      return say(
        request.messages
          .slice(-2)
          .map((message) => String(message.content))
          .join(", "),
      );
    });
    const run = await runAgent({ prompt: "go" }, { ...homeOf(folder), model, tools: [look] });
    expect(most).toBe(2);
    expect(run.result).toBe("look 1, look 2");
  });

  test("shell commands of one reply run one at a time", async () => {
    const folder = temporaryFolder();
    const command = (name: string) => ({
      name: "bash",
      arguments: { command: `echo ${name} in >> log; sleep 0.05; echo ${name} out >> log` },
    });
    const model = scriptedModel((_request, n) =>
      n === 1 ? calls([command("a"), command("b")]) : say("done"),
    );
    await runAgent({ prompt: "go", dir: folder }, { ...homeOf(folder), model });
    expect(readFileSync(path.join(folder, "log"), "utf8")).toBe("a in\na out\nb in\nb out\n");
  });

  test("the limit of steps ends the run, names the limit and says how to go on", async () => {
    const folder = temporaryFolder();
    const model = scriptedModel(() => call("list_files", {}));
    const run = await runAgent({ prompt: "go", maxSteps: 3 }, { ...homeOf(folder), model });
    expect(run).toMatchObject({ status: "failed", reason: "step_limit", steps: 3 });
    expect(run.error).toMatch(/limit of 3 steps.*maxSteps.*retry/s);
    expect(model.callCount()).toBe(3);
  });
});
