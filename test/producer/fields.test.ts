import { expect, it } from "vitest";
import { ConfigError } from "../../src/errors.ts";
import { checkTaskFields, fieldFlags, fieldsFromFlags } from "../../src/producer/fields.ts";
import { protocolNames } from "../../src/protocol-name.ts";

it("every field of a task is a kebab-case flag with a type and a help text", () => {
  expect(fieldFlags.map(({ flag, type, isBuilt }) => `${flag} ${type}${isBuilt ? "" : " planned"}`)).toEqual([
    "--prompt text",
    "--image text",
    "--repo text",
    "--dir text",
    "--ref text",
    "--key text",
    "--priority integer",
    "--max-steps integer",
    "--time-limit-ms integer",
    "--budget-usd dollars",
    "--budget-tokens integer",
    "--model text",
    "--model-parameters json",
    "--tools list",
    "--system-prompt text",
    "--fallback-models list",
    "--allowed-hours text",
    "--latest-start text",
    "--on-interrupt text",
    "--protocol text",
    "--environment text",
    "--setup text planned",
    "--verify text planned",
    "--vars text planned",
    "--at text planned",
  ]);
  for (const { help } of fieldFlags) expect(help).not.toBe("");
});

it("flags become fields with absolute paths, and other options are left alone", () => {
  const flags = {
    prompt: "fix it",
    repo: "./app",
    systemPrompt: "prompt.md",
    maxSteps: "12",
    priority: "-3",
    tools: "bash, read_file",
    key: "123",
    file: "tasks.jsonl",
    model: undefined,
  };
  expect(fieldsFromFlags({ flags, cwd: "/srv" })).toEqual({
    prompt: "fix it",
    repo: "/srv/app",
    systemPrompt: "/srv/prompt.md",
    maxSteps: 12,
    priority: -3,
    tools: ["bash", "read_file"],
    key: "123",
  });
});

it.each(["https://host/a.git", "ssh://git@host/a", "git@host:team/app", "host:app", "file:///srv/app"])(
  "%s stays as it is",
  (repo) => {
    expect(fieldsFromFlags({ flags: { repo }, cwd: "/srv" })).toEqual({ repo });
  },
);

it.each([
  ["app", "/srv/app"],
  ["../other", "/other"],
  ["/abs/app", "/abs/app"],
  ["./a:b", "/srv/a:b"],
  ["team/a:b", "/srv/team/a:b"],
])("the path %s becomes %s", (repo, expected) => {
  expect(fieldsFromFlags({ flags: { repo }, cwd: "/srv" })).toEqual({ repo: expected });
});

it("a bad flag is named with what was expected and what was got", () => {
  const read = (flags: Record<string, unknown>) => () => fieldsFromFlags({ flags, cwd: "/" });
  expect(read({ maxSteps: "many" })).toThrow(ConfigError);
  expect(read({ maxSteps: "many" })).toThrow(/^--max-steps: expected .*whole number.*, got "many"$/);
  expect(read({ ref: "--upload-pack=x", maxSteps: "0" })).toThrow(/--ref: .*got.*; --max-steps: .*got 0$/);
  expect(read({ repo: "-x" })).toThrow(/--repo: expected/);
  expect(read({ prompt: " \n" })).toThrow(/--prompt: expected/);
});

it.each(["setup", "verify", "vars", "at"])("%s is refused by name as not built yet", (name) => {
  expect(checkTaskFields({ prompt: "a", [name]: 1 })).toEqual({
    problems: [{ name, message: "not built yet; leave it out" }],
  });
  expect(() => fieldsFromFlags({ flags: { [name]: "1" }, cwd: "/" })).toThrow(/not built yet/);
});

it.each(protocolNames)("%s is a protocol", (protocol) => {
  expect(checkTaskFields({ prompt: "a", protocol })).toEqual({ data: { prompt: "a", protocol } });
});

it("other protocols are refused with the names of all, and local is the only environment yet", () => {
  expect(checkTaskFields({ prompt: "a", environment: "local" })).toEqual({ data: { prompt: "a" } });
  const all = /^expected "native" or "bash-block" or "react" .*got "xml"$/;
  expect(checkTaskFields({ prompt: "a", protocol: "xml", environment: "container" })).toEqual({
    problems: [
      { name: "protocol", message: expect.stringMatching(all) },
      { name: "environment", message: expect.stringMatching(/^expected "local".*got "container"$/) },
    ],
  });
});

it("an unknown field gets a suggestion where one is near", () => {
  expect(checkTaskFields({ promt: "a", colour: 1, max_steps: 5 })).toEqual({
    problems: [
      { name: "promt", message: 'unknown (did you mean "prompt"?)' },
      { name: "colour", message: "unknown" },
      { name: "max_steps", message: 'unknown (did you mean "maxSteps"?)' },
    ],
  });
});

it("id is accepted for key, both only if they say the same", () => {
  expect(checkTaskFields({ prompt: "a", id: "k" })).toEqual({ data: { prompt: "a", key: "k" } });
  expect(checkTaskFields({ prompt: "a", id: "k", key: "k" })).toEqual({ data: { prompt: "a", key: "k" } });
  expect(checkTaskFields({ prompt: "a", id: "k", key: "l" })).toMatchObject({ problems: [{ name: "id" }] });
});

it.each(["123", "repo:fix", "a:b:c", "ä/ü 1", "k".repeat(300), "K1", "k1", "🐾", "__proto__"])(
  "%s is a key",
  (key) => {
    expect(checkTaskFields({ prompt: "a", key })).toEqual({ data: { prompt: "a", key } });
  },
);

it.each(["", 7, true, "\ud800"])("%j is no key", (key) => {
  expect(checkTaskFields({ prompt: "a", key })).toMatchObject({ problems: [{ name: "key" }] });
});

it("null counts as not given", () => {
  expect(checkTaskFields({ prompt: "a", repo: null, key: null, verify: null })).toEqual({
    data: { prompt: "a" },
  });
});
