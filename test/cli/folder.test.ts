import { existsSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { startAgentServer } from "../helpers/agent-server.ts";
import { commandLine, type PawlProcess } from "../helpers/command-line.ts";
import { waitUntil } from "../helpers/wait-until.ts";

function collectErrors(child: PawlProcess): () => string {
  let text = "";
  child.stderr?.on("data", (chunk) => {
    text += chunk;
  });
  return () => text;
}

async function untilSays(says: () => string, text: string): Promise<void> {
  await waitUntil(() => says().includes(text), { timeoutMs: 20_000, what: `stderr has ${text}` });
}

test("the second run in a folder waits for the first, and says so", async () => {
  const { env } = await startAgentServer({
    first: [
      { tool: "bash", input: { command: "until [ -e go ]; do sleep 0.1; done; touch first-ended" } },
      { text: "first" },
    ],
    second: [{ tool: "bash", input: { command: "ls" } }, { text: "second" }],
  });
  const { start, folder, json } = commandLine({ env });
  const first = start(["run", "first", "--dir", "."]);
  await untilSays(collectErrors(first), "→ bash");
  const [running] = await json(["list"]);
  const second = start(["run", "second", "--dir", "."]);
  const says = collectErrors(second);
  await untilSays(says, `one run at a time works in this folder, now it is run ${running?.id}`);
  expect(says()).not.toContain("step 1");
  expect(existsSync(path.join(folder, "first-ended"))).toBe(false);
  writeFileSync(path.join(folder, "go"), "");
  const [one, other] = await Promise.all([first, second]);
  expect([one.exitCode, one.stdout, other.exitCode, other.stdout]).toEqual([0, "first", 0, "second"]);
  expect(says()).toContain("first-ended");
});

test("a run behind one that waits or was left says what frees the folder", async () => {
  const { env } = await startAgentServer();
  const { start, pawl, json } = commandLine({ env });
  await pawl(["enqueue", "first", "--dir", ".", "--key", "first"]);
  const [first] = await json(["show", "first"]);
  const child = start(["run", "second", "--dir", "."]);
  const says = collectErrors(child);
  await untilSays(says, `run ${first?.id} comes first, which is queued, and nobody works on it`);
  await pawl(["pause", "first"]);
  await untilSays(says, `which waits (paused): pawl resume ${first?.id} goes on with it`);
  await pawl(["cancel", "first"]);
  expect(await child).toMatchObject({ exitCode: 0, stdout: "done" });
});

test("a run that another worker has is followed to its end", async () => {
  const { env } = await startAgentServer({ slow: [{ text: "The answer.", delayMs: 4000 }] });
  const { start, pawl, json } = commandLine({ env });
  await pawl(["enqueue", "slow", "--key", "k"]);
  const worker = start(["worker", "--drain"]);
  await waitUntil(async () => (await json(["show", "k"]))[0]?.status === "running", {
    timeoutMs: 20_000,
    what: "the worker has the run",
  });
  const { stdout, stderr, code } = await pawl(["run", "slow", "--key", "k"]);
  expect({ stdout, code }).toEqual({ stdout: "The answer.", code: 0 });
  expect(stderr).toMatch(/worker \w+ \(pid \d+\) has this run; following its log/);
  expect((await worker).exitCode).toBe(0);
});
