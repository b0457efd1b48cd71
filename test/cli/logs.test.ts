import { expect, onTestFinished, test } from "vitest";
import { startAgentServer } from "../helpers/agent-server.ts";
import { commandLine } from "../helpers/command-line.ts";
import { completion, startRawServer } from "../helpers/raw-server.ts";

const slow = [
  { text: "I wait.", tool: "bash", input: { command: "sleep 1; echo waited" } },
  { text: "The answer." },
];

test("logs tells messages and events in order", async () => {
  const { env } = await startAgentServer({ slow });
  const { pawl, json } = commandLine({ env });
  await pawl(["run", "slow", "--key", "k"]);
  const entries = await json(["logs", "k"]);
  expect(entries.map(({ type, kind }) => `${type} ${kind}`)).toEqual([
    "event enqueued",
    "event claimed",
    "message system",
    "message task",
    "message reply",
    "message result",
    "message reply",
    "event finished",
  ]);
  expect(entries[4]).toMatchObject({
    step: 1,
    seq: 3,
    epoch: 1,
    data: { role: "assistant", content: "I wait." },
  });
  const { stdout } = await pawl(["logs", "k"]);
  expect(stdout).toMatch(/reply step 1\n {2}I wait\.\n {2}→ bash .*\n.*result step 1\n {2}waited/);
  expect(stdout).toMatch(/finished .*reason=finished$/);
});

test("an action of a text protocol is seen while it runs, and in the log as the model wrote it", async () => {
  const react = [
    { text: 'Thought: I wait.\nAction: bash\nAction Input: {"command": "echo waited"}' },
    { text: "Final Answer: waited" },
  ];
  const { env } = await startAgentServer({ react });
  const { pawl } = commandLine({ env });
  const { stdout: answer, stderr } = await pawl(["run", "react", "--key", "k", "--protocol", "react"]);
  expect(answer).toBe("waited");
  expect(stderr).toMatch(/step 1 .* I wait\.\n.*→ bash echo waited\n/);
  const { stdout } = await pawl(["logs", "k"]);
  expect(stdout).toMatch(
    /reply step 1\n.*I wait\.\n {2}Action: bash\n.*echo waited.*\n.*result step 1\n {2}Observation: waited/,
  );
  expect((await pawl(["show", "k"])).stdout).toMatch(/^protocol +react$/m);
});

test("logs -f follows a run until it ends", async () => {
  const { env } = await startAgentServer({ slow });
  const { pawl, start } = commandLine({ env });
  await pawl(["enqueue", "slow", "--key", "k"]);
  const follow = start(["logs", "-f", "k", "--json"]);
  await new Promise((resolve) => follow.stdout?.once("data", resolve));
  await pawl(["worker", "--drain"]);
  const { stdout, exitCode } = await follow;
  expect(exitCode).toBe(0);
  const lines = String(stdout).trim().split("\n");
  expect(JSON.parse(lines[0] ?? "")).toMatchObject({ kind: "enqueued" });
  expect(JSON.parse(lines.at(-1) ?? "")).toMatchObject({ kind: "finished", data: { status: "succeeded" } });
});

test("escape sequences of a model do not reach the terminal of who looks", async () => {
  const { env } = await startAgentServer({
    evil: [{ text: "red \u001b[31malert\u001b]0;title\u0007 \u001b[2J" }],
  });
  const { pawl } = commandLine({ env });
  const { stderr } = await pawl(["run", "evil", "--key", "k"]);
  const looks = await Promise.all(
    ["logs", "show", "list"].map((verb) => pawl(verb === "list" ? [verb] : [verb, "k"])),
  );
  for (const text of [stderr, ...looks.map(({ stdout }) => stdout)]) {
    expect(text).toContain("red alert");
    expect(text).not.toContain("\u001b");
  }
});

const listing = { id: "c1", type: "function", function: { name: "list_files", arguments: "{}" } };

test("reasoning is shown apart from the text, and exported as it came also where it is not sent back", async () => {
  const content = [
    { type: "thinking", thinking: [{ type: "text", text: "because" }] },
    { type: "text", text: "It is 7." },
  ];
  const bodies = [
    completion({ role: "assistant", content: "", tool_calls: [listing], reasoning_content: "first\nI look" }),
    completion({ role: "assistant", content }),
  ];
  const server = await startRawServer((requestNumber) => ({ body: bodies[requestNumber - 1] }));
  onTestFinished(() => server.close());
  const env = { OPENAI_BASE_URL: server.url, OPENAI_MODEL: "m", PAWL_PROVIDER: "mistral" };
  const { pawl } = commandLine({ env });
  expect((await pawl(["run", "x", "--key", "k"])).stdout).toBe("It is 7.");
  const { stdout } = await pawl(["logs", "k"]);
  expect(stdout).toMatch(/reply step 1\n {2}first\n {2}I look\n {2}→ list_files/);
  expect(stdout).toMatch(/reply step 2\n {2}because\n {2}It is 7\.\n/);
  expect(JSON.stringify(server.requests[1]?.body)).not.toContain("I look");
  const messages = JSON.parse((await pawl(["export", "k", "--format", "messages"])).stdout);
  expect(messages[2]).toMatchObject({ role: "assistant", reasoning_content: "first\nI look" });
});
