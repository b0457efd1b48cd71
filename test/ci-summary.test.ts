import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { execa } from "execa";
import { afterEach, beforeEach, expect, test } from "vitest";
import { redisMark } from "./helpers/redis.ts";

const script = path.join(import.meta.dirname, "../scripts/ci-summary.mjs");
let dir: string;

beforeEach(() => {
  dir = mkdtempSync(path.join(tmpdir(), "pawl-summary-"));
});
afterEach(() => {
  rmSync(dir, { recursive: true, force: true });
});

const plain = (status: string) => ({ status, ancestorTitles: ["a suite"] });
const overRedis = (status: string) => ({ status, ancestorTitles: [`a queue ${redisMark}`] });

/** Runs the script on a report with these tests in one file. */
async function summarise(tests: object[], file: object = {}, report: object = {}) {
  const testResults = [
    { name: "a.test.ts", status: "passed", message: "", assertionResults: tests, ...file },
  ];
  const reportPath = path.join(dir, "report.json");
  writeFileSync(reportPath, JSON.stringify({ success: true, testResults, ...report }));
  return await run(reportPath);
}

async function run(reportPath: string) {
  const { stdout, exitCode } = await execa(process.execPath, [script, reportPath], { reject: false });
  const lines = stdout.split("\n");
  return { exitCode, lastLine: lines.at(-1), before: lines.slice(0, -1).join("\n") };
}

test("tests that all passed are counted in one plain line", async () => {
  const summary = await summarise([plain("passed"), overRedis("passed")]);
  expect(summary).toEqual({ exitCode: 0, lastLine: "2 passed, 0 failed", before: "" });
});

test("a failed test fails the summary", async () => {
  const summary = await summarise(
    [plain("failed"), overRedis("passed")],
    { status: "failed" },
    { success: false },
  );
  expect(summary).toEqual({ exitCode: 1, lastLine: "1 passed, 1 failed", before: "" });
});

test("a skipped test is counted and fails nothing", async () => {
  const summary = await summarise([plain("skipped"), overRedis("passed"), plain("todo")]);
  expect(summary).toMatchObject({ exitCode: 0, lastLine: "1 passed, 0 failed, 2 skipped" });
});

test("a skipped Redis test fails the summary", async () => {
  const summary = await summarise([overRedis("passed"), overRedis("skipped")]);
  expect(summary).toMatchObject({ exitCode: 1, lastLine: "1 passed, 0 failed, 1 skipped" });
  expect(summary.before).toContain("1 Redis tests were skipped");
});

test("a report without any Redis test fails the summary", async () => {
  const summary = await summarise([plain("passed")]);
  expect(summary).toMatchObject({ exitCode: 1, lastLine: "1 passed, 0 failed" });
  expect(summary.before).toContain("no Redis test passed");
});

test("a file that cannot be loaded counts as a failure and is named", async () => {
  const file = { status: "failed", message: "SyntaxError: no\n  at x", assertionResults: [] };
  const summary = await summarise([], file, { success: false });
  expect(summary).toMatchObject({ exitCode: 1, lastLine: "0 passed, 1 failed" });
  expect(summary.before).toContain("failed outside of its tests: a.test.ts: SyntaxError: no");
});

test.each(["missing.json", "broken.json"])(
  "a report that is missing or broken fails the summary and says so: %s",
  async (name) => {
    writeFileSync(path.join(dir, "broken.json"), "{");
    const summary = await run(path.join(dir, name));
    expect(summary.exitCode).toBe(1);
    expect(summary.lastLine).toContain("no test report");
  },
);
