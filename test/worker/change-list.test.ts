import { expect, test } from "vitest";
import { describeChanges, namedPaths } from "../../src/worker/change-list.ts";

const added = (path: string) => ({ status: "A" as const, path });

test("changed paths are a line each, whatever characters they have", () => {
  const changes = [{ status: "D" as const, path: "a b" }, added("two\nlines\u001b[2J")];
  expect(describeChanges(changes)).toBe('D a b\nA "two\\nlines\\u001b[2J"');
});

test("many and long paths are bounded, and how many are left out is said", () => {
  const changes = Array.from({ length: 4000 }, (_, at) => added(`${"x".repeat(4000)}${at}`));
  const text = describeChanges(changes);
  expect(text.length).toBeLessThan(12_000);
  expect(text.endsWith("\nand 3950 more")).toBe(true);
  expect(namedPaths(changes)).toHaveLength(50);
});
