import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { execa } from "execa";
import { expect, onTestFinished, test } from "vitest";
import { startAgentServer } from "./helpers/agent-server.ts";
import { commandLine } from "./helpers/command-line.ts";
import { makeRepository } from "./helpers/repository.ts";

const examples = path.join(import.meta.dirname, "..", "examples");

function example(name: string, words: string[], { folder, env }: { folder: string; env: object }) {
  const options = { cwd: folder, env: { ...env }, extendEnv: false, timeout: 40_000 };
  return execa(process.execPath, [path.join(examples, name), ...words], options);
}

test("agent.js runs an agent with a tool of its own", async () => {
  const { env, requests } = await startAgentServer({
    "Roll three dice and tell me the sum.": [
      { tool: "roll_dice", input: { count: 3 } },
      { text: "They add up." },
    ],
  });
  const line = commandLine({ env });
  const { stdout } = await example("agent.js", [], line);
  expect(stdout).toBe("succeeded They add up.");
  expect(requests[1]?.messages.at(-1)).toMatchObject({
    role: "tool",
    content: expect.stringMatching(/^\d \+ \d \+ \d = \d+$/),
  });
  expect(await line.json(["list"])).toMatchObject([{ status: "succeeded", steps: 2 }]);
});

test("producer.js adds tasks once, and worker.js works on them", async () => {
  const { env } = await startAgentServer({
    "Write a README.md that says what this project does and how to run its tests.": [
      { tool: "write_file", input: { path: "README.md", content: "# Project\n" } },
      { text: "Written." },
    ],
  });
  const line = commandLine({ env });
  for (const name of ["one", "two"]) makeRepository(path.join(line.folder, name), { "a.txt": "a\n" });
  const first = await example("producer.js", ["one", "two"], line);
  expect(first.stdout).toMatch(/^\w{14} one enqueued\n\w{14} two enqueued$/);
  const again = await example("producer.js", ["one"], line);
  expect(again.stdout).toMatch(/^\w{14} one already there$/);
  const { stdout, stderr } = await example("worker.js", [], line);
  expect(stdout).toBe("2 runs: 2 succeeded, 0 failed");
  expect(stderr).toMatch(/run\.finished .*status=succeeded/);
  expect(await line.json(["list", "--batch", "readme"])).toMatchObject([
    { key: "two", changedFiles: ["README.md"] },
    { key: "one", changedFiles: ["README.md"] },
  ]);
});

test("weather.ts, named in the configuration, is offered to runs and called", async () => {
  const { env, requests } = await startAgentServer({
    "how is the weather?": [
      {
        calls: [
          { name: "weather", arguments: { city: "北京" } },
          { name: "weather", arguments: { city: "Nowhere" } },
          { name: "weather", arguments: { town: "Oslo" } },
        ],
      },
      { text: "Sunny." },
    ],
  });
  const service = createServer((request, response) => {
    response.statusCode = request.url?.startsWith("/Nowhere") ? 404 : 200;
    response.end(
      JSON.stringify({ current_condition: [{ temp_C: "21", weatherDesc: [{ value: "Sunny" }] }] }),
    );
  });
  await new Promise<void>((resolve) => service.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void service.close());
  const { port } = service.address() as AddressInfo;
  const files = { "pawl.config.json": JSON.stringify({ tools: [path.join(examples, "weather.ts")] }) };
  const { pawl } = commandLine({ files, env: { ...env, WEATHER_URL: `http://127.0.0.1:${port}` } });
  expect(await pawl(["run", "how is the weather?"])).toMatchObject({ stdout: "Sunny.", code: 0 });
  const names = requests[0]?.tools?.map((tool) => tool.function.name);
  expect(names).toEqual(["bash", "read_file", "write_file", "edit_file", "list_files", "weather"]);
  const results = requests[1]?.messages.slice(-3).map(({ content }) => content);
  expect(results).toEqual([
    "北京: Sunny, 21 °C",
    expect.stringContaining("the weather service knows no city Nowhere"),
    expect.stringContaining("city"),
  ]);
});
