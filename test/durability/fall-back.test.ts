import { mkdirSync } from "node:fs";
import path from "node:path";
import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { expectSoundLogs } from "../helpers/invariants.ts";
import { refused, said, startLocalServer } from "../helpers/local-server.ts";
import { runPawl, startPawl } from "../helpers/pawl-process.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

test("a run whose model takes no tools goes on in ReAct after any kill, with the window it began with", async () => {
  let windowTokens = 20_000;
  const server = await startLocalServer({
    "GET /v1/models": () => ({ body: { data: [{ id: "m", max_model_len: windowTokens }] } }),
    "POST /v1/chat/completions": ({ tools, messages }) => {
      if (tools !== undefined) return refused("m does not support tools");
      const isBegun = JSON.stringify(messages).includes("assistant");
      const act = 'Thought: I count.\nAction: bash\nAction Input: {"command": "echo 3 >> counted"}';
      return said(isBegun ? "Final Answer: three" : act);
    },
  });
  const folder = temporaryFolder();
  const dir = path.join(folder, "work");
  mkdirSync(dir);
  const home = path.join(folder, "data");
  const env = { PAWL_HOME: home, OPENAI_BASE_URL: server.url, OPENAI_MODEL: "m", PAWL_PROVIDER: "vllm" };
  const at = { cwd: folder, env };
  expect((await runPawl(["enqueue", "Count.", "--dir", dir, "--key", "k"], at)).code).toBe(0);

  const killAt = async (failpoint: string) => {
    const doomed = startPawl(["worker", "--drain"], { ...at, env: { ...env, PAWL_FAILPOINT: failpoint } });
    expect((await doomed.ended()).signal, failpoint).toBe("SIGKILL");
  };
  await killAt("begin.committed");
  // A window that another owner would be told.
  windowTokens = 60_000;
  await killAt("plan.committed:2");
  await killAt("reply.committed:1");
  await killAt("result.committed:1");
  expect((await startPawl(["worker", "--drain"], at).ended()).code).toBe(0);

  const [shown] = JSON.parse(`[${(await runPawl(["show", "k", "--json"], at)).stdout}]`);
  expect(shown).toMatchObject({ status: "succeeded", result: "three", protocol: "react", steps: 2 });
  const { stdout } = await runPawl(["show", "k"], at);
  expect(stdout.match(/protocol_changed .*from=native to=react why=.*does not support tools/g)).toHaveLength(
    1,
  );

  const database = new Database(path.join(home, "pawl.db"), { readonly: true });
  onTestFinished(() => void database.close());
  expectSoundLogs(database);
  const kinds = database.prepare("SELECT kind FROM messages ORDER BY seq").pluck().all();
  expect(kinds).toEqual(["system", "task", "system", "reply", "result", "reply"]);
  const inReact = server.chats.filter(({ tools }) => tools === undefined);
  expect(server.chats.length - inReact.length, "requests that were refused").toBe(1);
  expect(inReact).toHaveLength(2);
  expect(server.chats.map(({ max_tokens: limit }) => limit)).toEqual([5_000, 5_000, 5_000]);
});
