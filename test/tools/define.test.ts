import { expect, test } from "vitest";
import { z } from "zod";
import { ConfigError } from "../../src/errors.ts";
import { defineTool } from "../../src/tools/define.ts";

const parameters = z.object({ city: z.string(), days: z.number().int().max(7).optional() });
const weather = defineTool({ name: "weather", description: "", parameters, run: async ({ city }) => city });
const plain = defineTool({
  name: "query",
  description: "",
  parameters: {
    type: "object",
    properties: { sql: { type: "string" }, rows: { type: "integer", default: 10 }, mode: { enum: ["read"] } },
    required: ["sql"],
    additionalProperties: false,
  },
  run: async (input) => JSON.stringify(input),
});

test("a zod object becomes JSON Schema, and a tool is unsafe unless it says otherwise", () => {
  expect(weather.class).toBe("unsafe");
  expect(weather.parameters).toEqual({
    type: "object",
    properties: {
      city: { type: "string" },
      days: { type: "integer", maximum: 7, minimum: expect.any(Number) },
    },
    required: ["city"],
  });
});

test("each bad field is named with what was expected and what was got", () => {
  expect(() => weather.parse({ days: "two" })).toThrow(
    /- city: expected string, got nothing\n- days: expected (int|number), got string "two"/,
  );
  expect(() => weather.parse({ city: "x", days: 9 })).toThrow(/days: .*<=7, got number 9/);
  expect(() => plain.parse({ rows: "x", mode: "write", extra: 1 })).toThrow(
    /sql: required, got nothing\n- extra: no such parameter; the parameters are: sql, rows, mode\n- rows: must be integer, got string "x"\n- mode: .*\["read"\], got string "write"/,
  );
});

test("null for an optional field counts as left out", () => {
  expect(weather.parse({ city: "x", days: null })).toEqual({ city: "x" });
  expect(plain.parse({ sql: "x", rows: null })).toEqual({ sql: "x", rows: 10 });
  expect(() => weather.parse({ city: null })).toThrow(/city: expected string, got null/);
});

const strict = defineTool({
  name: "strict",
  description: "",
  parameters: z.strictObject({
    command: z.string(),
    timeoutMs: z.number().optional(),
    nested: z.strictObject({}).optional(),
  }),
  run: async () => "",
});

test("a strict zod object names what it does not know, and the nearest it knows", () => {
  expect(() => strict.parse({ command: "x", timeout: 5, cwd: "/", nested: { y: 1 } })).toThrow(
    /- nested\.y: no such parameter\n- timeout: no such parameter \(did you mean "timeoutMs"\?\); the parameters are: command, timeoutMs, nested\n- cwd: no such parameter; the/,
  );
  expect(() => plain.parse({ sql: "x", row: 1 })).toThrow('row: no such parameter (did you mean "rows"?)');
  expect(weather.parse({ city: "x", extra: 1 })).toEqual({ city: "x" });
});

test("a strict zod object takes snake case for its own, unless both are given", () => {
  expect(strict.parse({ command: "x", timeout_ms: 5 })).toEqual({ command: "x", timeoutMs: 5 });
  expect(strict.parse({ command: "x", timeout_ms: null })).toEqual({ command: "x" });
  expect(() => strict.parse({ command: "x", timeout_ms: 5, timeoutMs: 6 })).toThrow("timeout_ms: no such");
  expect(() => strict.parse({ command: "x", timeout_ms: "5" })).toThrow(
    'timeout_ms: no such parameter (did you mean "timeoutMs"?)',
  );
});

test("values are never coerced", () => {
  expect(() => weather.parse({ city: 42 })).toThrow(/city: expected string, got number 42/);
  expect(() => plain.parse({ sql: "x", rows: "5" })).toThrow(/rows/);
});

test.each(["", "two words", "a.b", "x".repeat(65)])("the name %j is refused", (name) => {
  expect(() => defineTool({ name, description: "", parameters, run: async () => "" })).toThrow(ConfigError);
});

test("parameters that are no object schema are refused", () => {
  const define = (wrong: Record<string, unknown>) =>
    defineTool({ name: "x", description: "", parameters: wrong, run: async () => "" });
  expect(() => define({ type: "string" })).toThrow(/"x".*type "object", got string "string"/);
  expect(() => define({ type: "object", properties: { a: { type: "nonsense" } } })).toThrow(ConfigError);
  expect(() => define({ _def: {} })).toThrow(/zod \(version 4\)/);
});
