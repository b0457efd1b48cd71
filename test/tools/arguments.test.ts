import { expect, test } from "vitest";
import { readArguments } from "../../src/tools/arguments.ts";

test.each([
  ['{"command":"echo hi"}', { command: "echo hi" }],
  [JSON.stringify('{"command":"echo hi"}'), { command: "echo hi" }],
  ['{"content":"{\\"a\\":1}"}', { content: '{"a":1}' }],
  ['{"content":"42"}', { content: "42" }],
  ["", {}],
  ["  ", {}],
  ['{"command":', undefined],
  ["[1]", undefined],
  ["null", undefined],
  ["42", undefined],
  ['"text"', undefined],
])("%j are read as %j", (text, expected) => {
  expect(readArguments(text)).toEqual(
    expected === undefined ? { problem: expect.stringContaining("a JSON object") } : { input: expected },
  );
});
