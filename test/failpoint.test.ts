import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { failpoints } from "../src/failpoint.ts";

test("every failpoint is passed somewhere, and no other name is", () => {
  const source = path.join(import.meta.dirname, "..", "src");
  const files = readdirSync(source, { recursive: true, encoding: "utf8" }).filter((file) =>
    file.endsWith(".ts"),
  );
  const passed = files.flatMap((file) =>
    [...readFileSync(path.join(source, file), "utf8").matchAll(/\bfailpoint\("([^"]+)"\)/g)].map(
      ([, name]) => name,
    ),
  );
  expect([...new Set(passed)].sort()).toEqual([...failpoints].sort());
});
