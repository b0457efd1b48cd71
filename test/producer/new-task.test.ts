import path from "node:path";
import { describe, expect, it } from "vitest";
import { ConfigError } from "../../src/errors.ts";
import { tasksFromFlags } from "../../src/producer/new-task.ts";
import { specSchema } from "../../src/producer/task.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const fromFlags = (flags: Record<string, unknown>, cwd = "/srv") =>
  tasksFromFlags({ flags, cwd, batch: null });
const keysOf = (flags: Record<string, unknown>) =>
  fromFlags({ prompt: "fix", ...flags }).map(({ key }) => key);

it("a bare prompt is one task without key", () => {
  const tasks = tasksFromFlags({ flags: { prompt: "fix" }, cwd: "/srv", batch: "night" });
  expect(tasks).toEqual([
    {
      key: null,
      batch: "night",
      priority: 0,
      spec: {
        version: 1,
        prompt: "fix",
        repo: null,
        ref: null,
        dir: null,
        maxSteps: 100,
        timeLimitMs: null,
        model: null,
        tools: null,
        systemPrompt: null,
      },
    },
  ]);
  expect(specSchema.parse(tasks[0]?.spec)).toEqual(tasks[0]?.spec);
});

it("flags beat defaults", () => {
  const options = { cwd: "/srv", batch: null, defaults: { maxSteps: 7, timeLimitMs: 1000 } };
  const [task] = tasksFromFlags({ ...options, flags: { prompt: "fix", maxSteps: "9" } });
  expect(task?.spec).toMatchObject({ maxSteps: 9, timeLimitMs: 1000 });
});

describe("several repositories", () => {
  it("each gets a task of its own, keyed by the name of the repository", () => {
    const repo = ["./app", "/srv/lib/", "https://host/team/site.git", "git@host:tools.git", "/srv/core/.git"];
    expect(keysOf({ key: "K", repo })).toEqual(["K/app", "K/lib", "K/site", "K/tools", "K/core"]);
    expect(fromFlags({ prompt: "fix", repo }).map(({ spec }) => spec.repo)).toEqual([
      "/srv/app",
      "/srv/lib",
      "https://host/team/site.git",
      "git@host:tools.git",
      "/srv/core/.git",
    ]);
  });

  it("the current folder has the name it really has", () => {
    expect(keysOf({ key: "K", repo: [".", "app"] })).toEqual(["K/srv", "K/app"]);
  });

  it("without a key each is a new run, and a single one keeps the key as it is", () => {
    expect(keysOf({ repo: ["a", "b"] })).toEqual([null, null]);
    expect(keysOf({ repo: ["a"], key: "K" })).toEqual(["K"]);
    expect(keysOf({ repo: "a", key: "K" })).toEqual(["K"]);
    expect(keysOf({ repo: [], key: "K" })).toEqual(["K"]);
  });

  it("equal keys are an error that names both and no password", () => {
    const equal = () => keysOf({ key: "K", repo: ["/a/app", "https://me:hush@host/app.git"] });
    expect(equal).toThrow(ConfigError);
    expect(equal).toThrow(/"K\/app" for both \/a\/app and https:\/\/host\/app\.git/);
  });
});

describe("what a task names", () => {
  it("a folder to work in must exist, a repository need not", () => {
    const cwd = temporaryFolder({ "here/file": "" });
    expect(fromFlags({ prompt: "fix", dir: "here" }, cwd)[0]?.spec.dir).toBe(path.join(cwd, "here"));
    for (const dir of ["nowhere", "here/file"]) {
      expect(() => fromFlags({ prompt: "fix", dir }, cwd)).toThrow(/^dir: expected an existing folder/);
    }
    expect(fromFlags({ prompt: "fix", repo: "nowhere" }, cwd)).toHaveLength(1);
  });

  it("a repository excludes a folder, and a ref needs a repository", () => {
    expect(() => fromFlags({ prompt: "fix", repo: "a", dir: "/" })).toThrow(/repo and dir: expected one/);
    expect(() => fromFlags({ prompt: "fix", ref: "main" })).toThrow(/ref: expected a repo with it/);
  });

  it("the text of the system prompt is stored", () => {
    const cwd = temporaryFolder({ "prompt.md": "Be brief.\n" });
    const [task] = fromFlags({ prompt: "fix", systemPrompt: "prompt.md" }, cwd);
    expect(task?.spec.systemPrompt).toBe("Be brief.\n");
    expect(() => fromFlags({ prompt: "fix", systemPrompt: "none.md" }, cwd)).toThrow(
      /systemPrompt: .*none\.md/,
    );
  });

  it("a prompt is required", () => {
    expect(() => fromFlags({ repo: "a" })).toThrow(
      /prompt: expected a text that says what to do, got nothing/,
    );
  });
});
