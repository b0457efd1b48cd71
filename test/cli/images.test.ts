import { rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { commandLine } from "../helpers/command-line.ts";
import { completion, startRawServer } from "../helpers/raw-server.ts";

/** Large enough that nobody wants to see it. */
const png = Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), Buffer.alloc(300_000, 7)]);
const dataUrl = `data:image/png;base64,${png.toString("base64")}`;
const url = "https://a.example/b.png?size=1,2";
const call = { id: "a", type: "function", function: { name: "bash", arguments: '{"command":"true"}' } };

/** The first request is answered with a call, the later ones with an answer. */
async function project(env: Record<string, string> = {}) {
  const server = await startRawServer((n) => ({
    body: completion(
      n === 1
        ? { role: "assistant", content: null, tool_calls: [call] }
        : { role: "assistant", content: "a cat" },
    ),
  }));
  onTestFinished(() => server.close());
  const line = commandLine({ env: { OPENAI_BASE_URL: server.url, OPENAI_MODEL: "m", ...env } });
  writeFileSync(path.join(line.folder, "cat.png"), png);
  const bodies = () =>
    server.requests.map(({ body }) => body as { messages: { role: string; content: unknown }[] });
  return { ...line, bodies };
}

const parts = [
  { type: "text", text: expect.stringMatching(/^What is it\?\n\nWorking directory: /) },
  { type: "image_url", image_url: { url: dataUrl } },
  { type: "image_url", image_url: { url } },
];

test("images go with the task in every request, also after a crash, when the file is long gone", async () => {
  const { pawl, json, folder, bodies } = await project();
  await pawl(["enqueue", "What is it?", "--key", "k", "--image", "cat.png", "--image", url]);
  rmSync(path.join(folder, "cat.png"));
  await pawl(["worker", "--drain"], { env: { PAWL_FAILPOINT: "result.committed" } });
  expect((await pawl(["worker", "--drain"])).code).toBe(0);
  const [first, second] = bodies();
  expect(first?.messages[1]).toEqual({ role: "user", content: parts });
  expect(JSON.stringify(second?.messages.slice(0, 2))).toBe(JSON.stringify(first?.messages));
  expect(await json(["show", "k"])).toMatchObject([{ status: "succeeded", result: "a cat" }]);
});

test("show and logs say shortly what images there are; the messages hold them whole", async () => {
  const { pawl, json } = await project();
  await pawl([
    "run",
    "What is it?",
    "--key",
    "k",
    "--image",
    "cat.png",
    "--image",
    url,
    "--save",
    "all.json",
  ]);
  const show = await pawl(["show", "k"]);
  expect(show.stdout).toContain(`cat.png (image/png, 293.0 KB)\n${url}`);
  expect(await json(["show", "k"])).toMatchObject([
    { images: [{ name: "cat.png", bytes: 300_008 }, { url }] },
  ]);
  const logs = await pawl(["logs", "k"]);
  expect(logs.stdout).toContain(`[image]\n  [image: ${url}]`);
  for (const { stdout } of [show, logs, await pawl(["logs", "k", "--json"])])
    expect(stdout.length).toBeLessThan(20_000);
  const { stdout } = await pawl(["export", "k", "--format", "messages"]);
  const [, task] = JSON.parse(stdout) as unknown[];
  expect(task).toEqual({ role: "user", content: parts });
});

test("a fork and a retry have the images of the run they come from", async () => {
  const { pawl, json, folder, bodies } = await project();
  await pawl(["run", "What is it?", "--key", "k", "--image", "cat.png"]);
  rmSync(path.join(folder, "cat.png"));
  await json(["fork", "k", "--step", "1"]);
  await pawl(["retry", "k"]);
  await pawl(["worker", "--drain"]);
  const tasks = bodies().map(({ messages }) => messages[1]?.content);
  expect(tasks).toHaveLength(4);
  for (const content of tasks)
    expect(content).toMatchObject([{ type: "text" }, { image_url: { url: dataUrl } }]);
});

test("what is no image, and images for a service that takes none, are refused before a run exists", async () => {
  const { pawl, json, folder } = await project();
  writeFileSync(path.join(folder, "note.txt"), "hello");
  const text = await pawl(["enqueue", "x", "--image", "note.txt"]);
  expect(text.code).toBe(2);
  expect(text.stderr).toContain("expected a PNG, JPEG, GIF or WebP image");
  const env = { OPENAI_BASE_URL: "https://api.deepseek.com", OPENAI_API_KEY: "key-for-a-test" };
  const refused = await pawl(["run", "x", "--image", "cat.png"], { env });
  expect(refused.stderr).toContain(
    "expected a task without images, as deepseek takes none, got 1: leave them out",
  );
  expect(await json(["list"])).toEqual([]);
});

test("a worker whose service takes no images lets the run wait, before anything is spent", async () => {
  const { pawl, json } = await project();
  await pawl(["enqueue", "x", "--key", "k", "--image", "cat.png"]);
  const env = { OPENAI_BASE_URL: "https://api.deepseek.com", OPENAI_API_KEY: "key-for-a-test" };
  await pawl(["worker", "--drain"], { env });
  const note = expect.stringContaining("deepseek takes none");
  expect(await json(["show", "k"])).toMatchObject([{ status: "waiting", steps: 0, waiting: { note } }]);
});
