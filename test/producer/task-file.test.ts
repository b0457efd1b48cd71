import path from "node:path";
import { describe, expect, it } from "vitest";
import { ConfigError } from "../../src/errors.ts";
import { parseTaskFile, type TaskFileOptions, taskFileFormat } from "../../src/producer/task-file.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const parse = (content: string | Uint8Array, options: Partial<TaskFileOptions> = {}) =>
  parseTaskFile({
    content,
    format: "jsonl",
    name: "tasks.jsonl",
    baseDir: "/srv",
    batch: null,
    ...options,
  });

const line = (fields: object) => `${JSON.stringify(fields)}\n`;
const keysOf = (content: string, options: Partial<TaskFileOptions> = {}) =>
  parse(content, options).map(({ key }) => key);

function refusal(content: string | Uint8Array, options: Partial<TaskFileOptions> = {}): string {
  try {
    parse(content, options);
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return String(error);
  }
  throw new Error("expected a refusal, got tasks");
}

describe("lines", () => {
  const awkward =
    '\uFEFF{"id":"t1","prompt":"a"}\r\n \r\n{"id":"t2","prompt":"b\u2028c"}\n\n{"id":"t3","prompt":"d"}';

  it.each([
    ["text", awkward],
    ["bytes", new TextEncoder().encode(awkward)],
  ])("BOM, CRLF, blank lines, U+2028 and a missing last line feed in %s do no harm", (_name, content) => {
    expect(parse(content).map(({ key, spec }) => [key, spec.prompt])).toEqual([
      ["t1", "a"],
      ["t2", "b\u2028c"],
      ["t3", "d"],
    ]);
  });

  it("every bad line is named with its physical number and reason, and nothing is given", () => {
    const lines = Array.from({ length: 1000 }, (_, index) =>
      JSON.stringify({ id: `t${index + 1}`, prompt: "x" }),
    );
    lines[516] = '{"id":"t517","prompt":"x"';
    lines[799] = "42";
    lines[899] = '{"id":"t900"}';
    const message = refusal(`\n${lines.join("\n")}`);
    expect(message.split("\n")).toEqual([
      "ConfigError: tasks.jsonl: nothing was enqueued:",
      expect.stringMatching(/^ {2}line 518: expected a JSON object, got broken JSON: /),
      "  line 801: expected a JSON object, got 42",
      "  line 901: prompt: expected a text that says what to do, got nothing",
    ]);
  });

  it("the list of bad lines is bounded and counts the rest", () => {
    const message = refusal("5\n".repeat(50));
    expect(message.split("\n")).toHaveLength(22);
    expect(message).toContain("… and 30 more");
  });

  it("problems are in the order of the lines", () => {
    const content = line({ key: "a", prompt: "x" }) + line({ key: "a", prompt: "x" }) + line({ key: "b" });
    expect(refusal(content)).toMatch(/line 2: .*\n {2}line 3: /);
  });

  it("an unknown field, a planned field and a wrong type are named", () => {
    const message = refusal(
      line({ promt: "x" }) + line({ prompt: "x", verify: "npm test" }) + line({ prompt: 5 }),
    );
    expect(message).toContain('line 1: promt: unknown (did you mean "prompt"?)');
    expect(message).toContain("line 2: verify: not built yet; leave it out");
    expect(message).toContain("line 3: prompt: expected a text that says what to do, got 5");
  });

  it("a JSON list and other encodings are refused with what to do", () => {
    expect(refusal('[\n{"prompt": "a"}\n]')).toContain("expected one JSON object a line, got a list");
    expect(refusal(Uint8Array.of(0xff, 0xfe, 0x7b, 0))).toContain("expected UTF-8 text");
  });

  it("an empty file holds no tasks", () => {
    expect(parse("\uFEFF\n \r\n")).toEqual([]);
  });

  it("10,000 lines take less than a second", () => {
    const content = Array.from({ length: 10_000 }, (_, index) =>
      line({ prompt: `task ${index}`, repo: "app" }),
    );
    // The best of three: other tests run on the same cores.
    const durationsMs = [1, 2, 3].map(() => {
      const startedAt = performance.now();
      expect(parse(content.join(""))).toHaveLength(10_000);
      return performance.now() - startedAt;
    });
    expect(Math.min(...durationsMs)).toBeLessThan(1000);
  });
});

describe("keys", () => {
  it("a line without key has one made of what it says, whatever other lines there are", () => {
    const [first, second] = keysOf('{"prompt":"a","repo":"r"}\n{"prompt":"b","repo":"r"}');
    expect(first).toMatch(/^task-[0-9a-f]{16}$/);
    expect(second).not.toBe(first);
    expect(keysOf('{"prompt":"new"}\n\n{"repo":"r","prompt":"b","ref":null}')[1]).toBe(second);
  });

  it("it depends on where the task works, not on configured limits", () => {
    const content = line({ prompt: "a", repo: "r" });
    const [key] = keysOf(content);
    expect(keysOf(content, { defaults: { maxSteps: 5 } })).toEqual([key]);
    expect(keysOf(content, { baseDir: "/elsewhere" })).not.toEqual([key]);
    const bare = line({ prompt: "a" });
    expect(keysOf(bare, { defaults: { repo: "/srv/r" } })).not.toEqual(keysOf(bare));
  });

  it("equal keys are errors that name both lines, repeated or conflicting, with or without key", () => {
    const content =
      line({ id: "t1", prompt: "a" }) +
      line({ id: "t1", prompt: "b" }) +
      line({ key: "t1", prompt: "a" }) +
      line({ prompt: "no id" }) +
      line({ prompt: "no id" });
    expect(refusal(content).split("\n").slice(1)).toEqual([
      '  line 2: differs from line 1 but has the same key (key "t1")',
      '  line 3: repeats line 1 (key "t1")',
      "  line 5: repeats line 4; give each a key of its own if both are wanted",
    ]);
  });

  it("keys that differ in case only are different", () => {
    expect(keysOf(line({ key: "K1", prompt: "a" }) + line({ key: "k1", prompt: "a" }))).toEqual(["K1", "k1"]);
  });
});

describe("fields", () => {
  it("all of them reach the task, paths from the file's folder", () => {
    const baseDir = temporaryFolder({ "prompts/brief.md": "Be brief." });
    const fields = {
      prompt: "fix",
      repo: "app",
      ref: "main",
      key: "k",
      priority: 5,
      maxSteps: 10,
      timeLimitMs: 60_000,
      model: "m",
      tools: ["bash"],
      systemPrompt: "prompts/brief.md",
      protocol: "native",
      environment: "local",
    };
    expect(parse(line(fields), { baseDir, batch: "night" })).toEqual([
      {
        key: "k",
        batch: "night",
        priority: 5,
        spec: {
          version: 1,
          prompt: "fix",
          repo: path.join(baseDir, "app"),
          ref: "main",
          dir: null,
          maxSteps: 10,
          timeLimitMs: 60_000,
          model: "m",
          tools: ["bash"],
          systemPrompt: "Be brief.",
          protocol: "native",
        },
      },
    ]);
  });

  it("a line beats the defaults, and one that says where it works takes nothing of that from them", () => {
    const baseDir = temporaryFolder({ "here/file": "" });
    const defaults = { prompt: "fix", repo: "/srv/app", ref: "main", maxSteps: 3, key: "never" };
    const content =
      line({ key: "a" }) + line({ key: "b", repo: "own", maxSteps: 4 }) + line({ key: "c", dir: "here" });
    const specs = parse(content, { baseDir, defaults }).map(({ spec }) => spec);
    expect(specs).toMatchObject([
      { prompt: "fix", repo: "/srv/app", ref: "main", dir: null, maxSteps: 3 },
      { prompt: "fix", repo: path.join(baseDir, "own"), ref: null, dir: null, maxSteps: 4 },
      { prompt: "fix", repo: null, ref: null, dir: path.join(baseDir, "here"), maxSteps: 3 },
    ]);
    expect(keysOf(line({ prompt: "x" }), { defaults })).not.toEqual(["never"]);
  });

  it("a missing folder is an error of its line", () => {
    expect(refusal(`\n${line({ prompt: "a", dir: "no/where" })}`)).toContain(
      "line 2: dir: expected an existing folder, got /srv/no/where",
    );
  });
});

it.each(["tasks.yaml", "tasks.yml", "tasks.csv", "tasks.TSV"])("%s is refused as not built yet", (name) => {
  expect(() => taskFileFormat(name)).toThrow(ConfigError);
  expect(() => taskFileFormat(name)).toThrow(/not built yet; use JSONL/);
});

it.each(["tasks.jsonl", "tasks.ndjson", "tasks.json", "/dev/fd/63"])("%s is read as JSONL", (name) => {
  expect(taskFileFormat(name)).toBe("jsonl");
});
