import { expect, test } from "vitest";
import { clip, counted, displayWidth, duration, flat, printable } from "../../src/report/text.ts";

test.each([
  ["abc", 3],
  ["第一个", 6],
  ["日本語テキスト", 14],
  ["한국어", 6],
  ["e\u0301", 1],
  ["🎉", 2],
  ["\u001b[31mred\u001b[39m", 3],
])("%j takes %i columns", (text, columns) => {
  expect(displayWidth(text)).toBe(columns);
});

test.each([
  ["short", 10, "short"],
  ["a longer text", 8, "a longe…"],
  ["第一个任务", 6, "第一…"],
  ["🎉🎉🎉", 5, "🎉🎉…"],
])("%j in %i columns is %j", (text, columns, expected) => {
  expect(clip(text, columns)).toBe(expected);
  expect(displayWidth(clip(text, columns))).toBeLessThanOrEqual(columns);
});

test("nothing printable moves the cursor or changes the title of a terminal", () => {
  expect(printable("a\u001b[2J\u001b]0;title\u0007b\rc\b\td\r\ne\0")).toBe("abc\td\ne");
  expect(flat("  a\n\n b\tc ")).toBe("a b c");
});

test.each([
  [950, "950 ms"],
  [12_340, "12.3 s"],
  [245_000, "4 min 05 s"],
  [7_800_000, "2 h 10 min"],
])("%i milliseconds are %j", (ms, text) => {
  expect(duration(ms)).toBe(text);
});

test("one thing has no plural", () => {
  expect([counted(0, "file"), counted(1, "file"), counted(2, "file")]).toEqual([
    "0 files",
    "1 file",
    "2 files",
  ]);
});
