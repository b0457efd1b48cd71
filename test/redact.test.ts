import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { createLogger } from "../src/log.ts";
import { call, say, scriptedModel } from "../src/model/scripted.ts";
import { openPawl } from "../src/pawl.ts";
import { createRedact, secretsOf } from "../src/redact.ts";
import { temporaryFolder } from "./helpers/temporary-folder.ts";

test("secrets are what variables with such names hold, unless they are too short to be one", () => {
  const env = {
    OPENAI_API_KEY: "sk-12345678",
    GITHUB_TOKEN: "ghp_abcdefgh",
    PATH: "/usr/bin:/bin",
    MONKEY: "bananas-are-fine",
    DB_PASSWORD: "short",
  };
  expect(secretsOf(env, ["configured-key", null])).toEqual(["sk-12345678", "ghp_abcdefgh", "configured-key"]);
});

test("a secret is replaced in plain and in JSON text, a longer one before one that it holds", () => {
  const redact = createRedact(["secret-1", 'quote"d-secret', "secret-1-and-more"]);
  expect(redact("a secret-1-and-more b secret-1")).toBe("a [redacted] b [redacted]");
  expect(redact(JSON.stringify({ key: 'quote"d-secret' }))).toBe('{"key":"[redacted]"}');
});

test("a key that a command prints and the model repeats reaches no message, outcome or log line", async () => {
  const folder = temporaryFolder({ ".env": "OPENAI_API_KEY=sk-very-secret-value\n" });
  const key = "sk-very-secret-value";
  const lines: string[] = [];
  const model = scriptedModel((request, n) =>
    n === 1
      ? { ...call("bash", { command: "cat .env" }), text: `the key is ${key}` }
      : say(`read ${String(request.messages.at(-1)?.content)} ${key}`),
  );
  const env = { PATH: process.env.PATH, PAWL_HOME: path.join(folder, "data") };
  const pawl = await openPawl({
    cwd: folder,
    env,
    model,
    logger: createLogger("debug", (line) => lines.push(line)),
  });
  const [created] = await pawl.enqueue({ prompt: "go", dir: folder });
  await (await pawl.startWorker({ drain: true })).done;
  const messages = JSON.stringify(await pawl.store.loadMessages(created?.id ?? ""));
  const run = await pawl.getRun(created?.id ?? "");
  await pawl.close();
  expect(run.result).toBe("read OPENAI_API_KEY=[redacted] [redacted]");
  expect(messages).not.toContain(key);
  expect(lines.join("\n")).not.toContain(key);
  expect(JSON.stringify(model.requests), "the model is sent what is recorded").not.toContain(key);
});

test("calls run with what the model sent, are recorded without the secrets, and never run with the mark in their place", async () => {
  const key = "postgres";
  const folder = temporaryFolder({ ".env": `SOME_PASSWORD=${key}\n` });
  const model = scriptedModel((_request, n) => {
    if (n === 1) return call("write_file", { path: "a.txt", content: `x ${key}` });
    if (n === 2) return call("read_file", { path: "a.txt" });
    return n === 3 ? call("write_file", { path: "a.txt", content: "x [redacted] y" }) : say("done");
  });
  const env = { PATH: process.env.PATH, PAWL_HOME: path.join(folder, "data") };
  const pawl = await openPawl({ cwd: folder, env, model });
  const [created] = await pawl.enqueue({ prompt: "go", dir: folder });
  await (await pawl.startWorker({ drain: true })).done;
  const messages = JSON.stringify(await pawl.store.loadMessages(created?.id ?? ""));
  await pawl.close();
  expect(readFileSync(path.join(folder, "a.txt"), "utf8")).toBe(`x ${key}`);
  expect(messages).not.toContain(key);
  const last = String(model.requests.at(-1)?.messages.at(-1)?.content);
  expect(last).toMatch(/^Error: not run\. \[redacted\] in the arguments stands for/);
});
