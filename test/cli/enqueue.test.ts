import { existsSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { commandLine } from "../helpers/command-line.ts";

const lines = (...tasks: unknown[]) => tasks.map((task) => JSON.stringify(task)).join("\n");

/** What `enqueue --json` prints, parsed. */
function parse(stdout: string): unknown[] {
  return stdout
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
}

test("a prompt without key is a new run each time, and needs no model and no key", async () => {
  const { json } = commandLine();
  const [one] = await json(["enqueue", "x"]);
  const [other] = await json(["enqueue", "x"]);
  expect(one).toEqual({ id: expect.stringMatching(/^[0-9a-z]{14}$/), key: null, created: true });
  expect(other?.id).not.toBe(one?.id);
});

test("the same key is the same run; another task under it is said, and changes nothing", async () => {
  const { json } = commandLine();
  const [first] = await json(["enqueue", "x", "--key", "k", "--max-steps", "5"]);
  expect(await json(["enqueue", "x", "--key", "k", "--max-steps", "5"])).toEqual([
    { id: first?.id, key: "k", created: false },
  ]);
  expect(await json(["enqueue", "x", "--key", "k", "--max-steps", "6"])).toEqual([
    { id: first?.id, key: "k", created: false, changed: true },
  ]);
  expect(await json(["show", "k"])).toMatchObject([{ maxSteps: 5 }]);
});

test("keys are unique per batch, and tasks without a batch share one", async () => {
  const { json } = commandLine();
  const ids = await Promise.all([
    json(["enqueue", "x", "--key", "k"]),
    json(["enqueue", "x", "--key", "k", "--batch", "b"]),
    json(["enqueue", "x", "--key", "k", "--batch", "c"]),
    json(["enqueue", "x", "--key", "k"]),
  ]);
  expect(new Set(ids.map(([row]) => row?.id)).size).toBe(3);
  expect(await json(["status", "--batch", "b"])).toMatchObject([{ total: 1 }]);
});

test("several repositories give a run each, with the repository's name in the key", async () => {
  const { json, pawl } = commandLine();
  const repos = ["--repo", "one", "--repo", "https://example.com/two.git"];
  expect(await json(["enqueue", "x", "--key", "k", ...repos])).toMatchObject([
    { key: "k/one", created: true },
    { key: "k/two", created: true },
  ]);
  expect(await json(["enqueue", "x", ...repos])).toMatchObject([{ key: null }, { key: null }]);
  const { stderr, code } = await pawl(["enqueue", "x", "--key", "k", "--repo", "a/one", "--repo", "b/one"]);
  expect(code).toBe(2);
  expect(stderr).toMatch(/"k\/one" for both .*a\/one and .*b\/one/);
});

test("a file gives a run a line; a line without key has a hash of its content as key", async () => {
  const { json } = commandLine({
    files: { "tasks.jsonl": lines({ prompt: "a", key: "ka" }, { prompt: "b" }, { prompt: "c", id: "kc" }) },
  });
  const first = await json(["enqueue", "--file", "tasks.jsonl", "--batch", "b"]);
  expect(first).toMatchObject([
    { key: "ka", created: true },
    { key: expect.stringMatching(/^task-[0-9a-f]+$/), created: true },
    { key: "kc", created: true },
  ]);
  const again = await json(["enqueue", "--file", "tasks.jsonl", "--batch", "b"]);
  expect(again).toEqual(first.map(({ id, key }) => ({ id, key, created: false })));
});

test("--file - reads standard input, relative paths from the current folder", async () => {
  const { pawl, folder } = commandLine();
  const input = `${lines({ prompt: "a", repo: "./code", priority: 3 })}\n\n`;
  const { stdout, code } = await pawl(["enqueue", "--file", "-", "--dry-run", "--json"], { input });
  expect(code).toBe(0);
  expect(parse(stdout)).toMatchObject([{ prompt: "a", repo: path.join(folder, "code"), priority: 3 }]);
});

describe("a file with mistakes", () => {
  const files = {
    "bad.jsonl": [
      lines({ prompt: "fine" }),
      lines({ prompt: "x", maxStep: 4 }),
      "",
      "{ broken",
      lines({ prompt: "x", verify: "make test" }),
      lines({ prompt: "x", maxSteps: "many" }),
      lines({ prompt: "a", key: "same" }),
      lines({ prompt: "b", key: "same" }),
    ].join("\n"),
  };

  test("names each with its line, and nothing is enqueued", async () => {
    const { pawl, folder } = commandLine({ files });
    const { stdout, stderr, code } = await pawl(["enqueue", "--file", "bad.jsonl"]);
    expect({ stdout, code }).toEqual({ stdout: "", code: 2 });
    expect(stderr.split("\n")).toEqual([
      "pawl: bad.jsonl: nothing was enqueued:",
      expect.stringMatching(/line 2: maxStep: unknown \(did you mean "maxSteps"\?\)/),
      expect.stringMatching(/line 4: expected a JSON object, got broken JSON/),
      expect.stringMatching(/line 5: verify: not built yet/),
      expect.stringMatching(/line 6: maxSteps: expected .*, got "many"/),
      expect.stringMatching(/line 8: differs from line 7 but has the same key \(key "same"\)/),
    ]);
    expect(existsSync(path.join(folder, ".pawl"))).toBe(false);
  });
});

test.each([
  [["--verify", "make test"], "--verify: not built yet"],
  [["--at", "tomorrow"], "--at: not built yet"],
  [["--budget-usd", "3,50"], "--budget-usd: expected"],
  [["--budget-tokens", "0"], "--budget-tokens: expected"],
  [["--batch-budget-usd", "5"], "expected --batch with the budget of a batch, got none"],
  [["--batch", "night", "--batch-budget-usd", "-1"], "--batch-budget-usd: expected"],
  [["--setup", "npm ci"], "--setup: not built yet"],
  [["--vars", "{}"], "--vars: not built yet"],
  [["--model-parameters", "[]"], "--model-parameters: expected an object such as"],
  [["--protocol", "xml"], '--protocol: expected "native" or "bash-block" or "react"'],
  [["--protocol", "bash-block", "--tools", "bash,read_file"], "tools: expected bash and no other tool"],
  [["--environment", "container"], '--environment: expected "local"'],
  [["--max-steps", "0"], "--max-steps: expected"],
  [["--priority", "high"], "--priority: expected"],
  [["--max-stesp", "3"], "unknown option '--max-stesp' (Did you mean --max-steps?)"],
  [["--repo", "a", "--dir", "."], "repo and dir: expected one of them"],
  [["--file", "tasks.csv"], "csv task files are not built yet"],
  [["--file", "nowhere.jsonl"], "expected a file of tasks that can be read, got nowhere.jsonl"],
])("pawl enqueue x %j is refused in one line, and nothing is enqueued", async (flags, message) => {
  const { pawl, folder } = commandLine();
  const { stdout, stderr, code } = await pawl(["enqueue", "x", ...flags]);
  expect({ stdout, code }).toEqual({ stdout: "", code: 2 });
  expect(stderr).toContain(message);
  expect(stderr.split("\n")).toHaveLength(1);
  expect(existsSync(path.join(folder, ".pawl"))).toBe(false);
});

test("unknown tools are refused by line with the closest name, and modules are loaded only for names of their own", async () => {
  const weather = `import { defineTool } from "pawl";
    globalThis.process.stderr.write("loaded\\n");
    export default defineTool({ name: "weather", description: "d", parameters: { type: "object" }, run: async () => "" });`;
  const files = {
    "weather.mjs": weather,
    "pawl.config.json": JSON.stringify({ tools: ["weather.mjs"] }),
    "bad.jsonl": lines({ prompt: "a", tools: ["bash"] }, { prompt: "b", tools: ["bsh", "wether"] }),
    "good.jsonl": lines({ prompt: "a", tools: ["bash", "weather"] }),
    "plain.jsonl": lines({ prompt: "a", tools: ["bash"] }, { prompt: "b" }),
  };
  const { pawl, folder } = commandLine({ files, env: { OPENAI_API_KEY: "k" } });
  const { stdout, stderr, code } = await pawl(["enqueue", "--file", "bad.jsonl"]);
  expect({ stdout, code }).toEqual({ stdout: "", code: 2 });
  expect(stderr).toMatch(/line 2: tools: expected .*bash, .*weather.*, got bsh \(did you mean "bash"\?\)/);
  expect(stderr).toMatch(/line 2: tools: .* got wether \(did you mean "weather"\?\)/);
  expect(stderr).not.toContain("line 1:");
  for (const words of [["enqueue"], ["enqueue", "--dry-run"], ["run"]]) {
    const refused = await pawl([...words, "x", "--tools", "bsh"]);
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('did you mean "bash"?') });
  }
  expect(existsSync(path.join(folder, ".pawl"))).toBe(false);
  expect(await pawl(["enqueue", "--file", "good.jsonl"])).toMatchObject({
    code: 0,
    stderr: expect.stringContaining("loaded"),
  });
  expect((await pawl(["enqueue", "--file", "plain.jsonl"])).stderr).toBe("2 enqueued, 0 already there");
});

test("--dry-run shows what would be added and adds nothing", async () => {
  const { pawl, folder } = commandLine();
  const { stdout, stderr, code } = await pawl(["enqueue", "x", "--key", "k", "--repo", "code", "--dry-run"]);
  expect(code).toBe(0);
  expect(stdout).toBe(`k  ${path.join(folder, "code")}  x`);
  expect(stderr).toContain("1 task would be enqueued; nothing was");
  expect(existsSync(path.join(folder, ".pawl"))).toBe(false);
});

test("people see what became of each task, and the empty folder of one that names no place", async () => {
  const { pawl } = commandLine();
  const first = await pawl(["enqueue", "x", "--key", "k"]);
  expect(first.stdout).toMatch(/^\w{14} {2}k {2}enqueued, in an empty folder: \/.*\/\w{14}$/);
  expect(first.stderr).toBe("1 enqueued, 0 already there");
  const other = await pawl(["enqueue", "y", "--key", "k"]);
  expect(other.stdout).toContain("its task differs");
});

test("ten thousand tasks of a file are enqueued in seconds", async () => {
  const tasks = Array.from({ length: 10_000 }, (_, index) => ({
    prompt: `task ${index}`,
    repo: "/srv/code",
  }));
  const { pawl, json } = commandLine({ files: { "tasks.jsonl": lines(...tasks) } });
  const startedAt = performance.now();
  const { stderr, code } = await pawl(["enqueue", "--file", "tasks.jsonl", "--batch", "big"]);
  const took = performance.now() - startedAt;
  expect({ stderr, code }).toEqual({ stderr: "10000 enqueued, 0 already there (20 shown)", code: 0 });
  expect(await json(["status", "--batch", "big"])).toMatchObject([{ total: 10_000 }]);
  // A second on an idle machine; the bound is generous.
  expect(took).toBeLessThan(15_000);
});
