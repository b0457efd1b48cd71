import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { commandLine } from "../helpers/command-line.ts";
import { completion, startRawServer } from "../helpers/raw-server.ts";

const secret = "gateway-secret-1";
const call = { id: "a", type: "function", function: { name: "bash", arguments: '{"command":"true"}' } };

/** The first request is answered with a call, the later ones with an answer that repeats the secret header. */
async function project(modelParameters: object) {
  const server = await startRawServer((n) => ({
    body: completion(
      n === 1
        ? { role: "assistant", content: null, tool_calls: [call] }
        : { role: "assistant", content: `done: ${secret}` },
    ),
  }));
  onTestFinished(() => server.close());
  const files = { "pawl.config.json": JSON.stringify({ modelParameters }) };
  const line = commandLine({ files, env: { OPENAI_BASE_URL: server.url, OPENAI_MODEL: "m" } });
  const configure = (config: object) =>
    writeFileSync(path.join(line.folder, "pawl.config.json"), JSON.stringify(config));
  return { ...line, server, configure };
}

test("a run that is resumed sends what its first owner fixed, with the headers of today", async () => {
  const { pawl, json, server, configure } = await project({
    temperature: 1,
    seed: 3,
    extraHeaders: { "X-Gateway": secret },
  });
  const own = '{"temperature":0.5,"extraBody":{"top_p":0.9},"maxOutputTokens":3000}';
  await pawl(["enqueue", "x", "--key", "k", "--model-parameters", own]);
  await pawl(["worker", "--drain"], { env: { PAWL_FAILPOINT: "reply.committed" } });
  configure({ modelParameters: { temperature: 2, seed: 4, extraHeaders: { "X-Gateway": `${secret}-new` } } });
  expect((await pawl(["worker", "--drain"])).code).toBe(0);
  expect(server.requests).toHaveLength(2);
  for (const { body } of server.requests) {
    expect(body).toMatchObject({ temperature: 0.5, seed: 3, top_p: 0.9, max_tokens: 3000 });
  }
  expect(server.requests.map(({ headers }) => headers["x-gateway"])).toEqual([secret, `${secret}-new`]);
  const [run] = await json(["show", "k"]);
  expect(run).toMatchObject({
    status: "succeeded",
    modelParameters: { temperature: 0.5, seed: 3, maxOutputTokens: 3000, extraBody: { top_p: 0.9 } },
  });
});

test("the values of configured headers are neither recorded nor printed", async () => {
  const { pawl, folder } = await project({ extraHeaders: { "X-Gateway": `Basic ${secret}` } });
  const run = await pawl(["run", "x", "--key", "k"]);
  expect(run).toMatchObject({ code: 0, stdout: "done: [redacted]" });
  const log = await pawl(["logs", "k"]);
  expect(run.stderr + log.stdout).not.toContain(secret);
  // The last process that closes it has brought the write-ahead log into the file.
  const database = readFileSync(path.join(folder, ".pawl", "pawl.db"), "latin1");
  expect(database).toContain("done: [redacted]");
  expect(database).not.toContain(secret);
});

test("parameters that are wrong, and a limit without room for a prompt, are refused before a run exists", async () => {
  const { pawl, json } = await project({});
  const wrong = await pawl(["run", "x", "--model-parameters", '{"temprature":1}']);
  expect(wrong).toMatchObject({ code: 2 });
  expect(wrong.stderr).toContain('--model-parameters: temprature: unknown (did you mean "temperature"?)');
  const broken = await pawl(["enqueue", "x", "--model-parameters", "temperature=1"]);
  expect(broken.stderr).toContain('expected an object such as {"temperature": 0}, got "temperature=1"');
  const large = await pawl(["run", "x", "--model-parameters", '{"maxOutputTokens":127000}']);
  expect(large.stderr).toMatch(/expected a window with at least 2000 tokens beside the reply, got 128000 /);
  expect(await json(["list"])).toEqual([]);
});

test("a retry takes other parameters; that of a fork does not", async () => {
  const { pawl, json, server } = await project({});
  await pawl(["run", "x", "--key", "k"]);
  await pawl(["retry", "k", "--model-parameters", '{"seed":9}']);
  await pawl(["worker", "--drain"]);
  expect(server.requests.at(-1)?.body).toMatchObject({ seed: 9 });
  const [{ id } = {}] = await json(["fork", "k", "--step", "0"]);
  await pawl(["worker", "--drain"]);
  const fork = await pawl(["retry", String(id), "--model-parameters", '{"seed":1}']);
  expect(fork.stderr).toContain("expected a fork to keep the modelParameters");
});
