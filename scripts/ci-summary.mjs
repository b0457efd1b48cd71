// Prints `N passed, N failed[, N skipped]` from a vitest JSON report and exits 1 unless everything that had to run passed.
// Usage: node scripts/ci-summary.mjs <report.json>
import { readFileSync } from "node:fs";

// The mark of test/helpers/redis.ts.
const redisMark = "(needs redis-server)";

const report = readReport(process.argv[2]);
const tests = report.testResults.flatMap((file) => file.assertionResults);
const passed = tests.filter(({ status }) => status === "passed");
const failed = tests.filter(({ status }) => status === "failed");
const skipped = tests.filter(({ status }) => status !== "passed" && status !== "failed");
// A file that cannot be loaded has no tests to count, and is a failure all the same.
const broken = report.testResults.filter(
  (file) => file.status === "failed" && !file.assertionResults.some(({ status }) => status === "failed"),
);

const problems = broken.map(
  (file) => `failed outside of its tests: ${file.name}: ${firstLine(file.message)}`,
);
const skippedRedis = skipped.filter(needsRedis);
if (skippedRedis.length > 0) {
  problems.push(`${skippedRedis.length} Redis tests were skipped; install redis-server`);
}
if (!passed.some(needsRedis)) problems.push("no Redis test passed; the queue over Redis is untested");
if (failed.length === 0 && broken.length === 0 && !report.success) {
  problems.push("the test runner reports a failure outside of the tests");
}
for (const problem of problems) console.log(problem);

const counts = [`${passed.length} passed`, `${failed.length + broken.length} failed`];
if (skipped.length > 0) counts.push(`${skipped.length} skipped`);
console.log(counts.join(", "));
process.exitCode = problems.length > 0 || failed.length > 0 ? 1 : 0;

function readReport(file) {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    console.log(`no test report, so nothing is known to have passed: ${error.message}`);
    process.exit(1);
  }
}

function needsRedis(test) {
  return test.ancestorTitles.some((title) => title.includes(redisMark));
}

function firstLine(text) {
  return String(text ?? "").split("\n")[0];
}
