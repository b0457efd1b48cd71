import { expect, test } from "vitest";
import { displayWidth } from "../../src/report/text.ts";
import { commandLine } from "../helpers/command-line.ts";

test("the demo kills a worker and proves that nothing was lost, in plain lines that fit a terminal", async () => {
  const { stdout, stderr, code } = await commandLine().pawl(["demo"]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toMatch(/^2\. kill -9 \d+ /m);
  expect(stdout.match(/succeeded +6 +\d +index\.js +passes$/gm)).toHaveLength(5);
  expect(stdout).toMatch(/^ {3}0 of \d+ replies committed before the kill were asked for again$/m);
  expect(stdout).toMatch(/^ {3}0 of 15 shell commands ran twice$/m);
  expect(stdout).not.toContain("\u001b");
  expect(stdout.split("\n").filter((line) => displayWidth(line) > 80)).toEqual([]);
});
