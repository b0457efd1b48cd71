import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { failpoints } from "../src/failpoint.ts";

test("every failpoint is passed somewhere; that no other name is, the types say", () => {
  const source = path.join(import.meta.dirname, "..", "src");
  const files = readdirSync(source, { recursive: true, encoding: "utf8" }).filter(
    (file) => file.endsWith(".ts") && file !== "failpoint.ts",
  );
  const text = files.map((file) => readFileSync(path.join(source, file), "utf8")).join("\n");
  expect(failpoints.filter((name) => !text.includes(`"${name}"`))).toEqual([]);
});
