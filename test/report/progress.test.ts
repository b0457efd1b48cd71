import { expect, test } from "vitest";
import type { LogLevel } from "../../src/log.ts";
import { createProgress } from "../../src/report/progress.ts";

const plain = (text: string) => text;
const palette = { dim: plain, strong: plain, command: plain, good: plain, bad: plain };

function recorded(manyRuns: boolean, level: LogLevel = "info") {
  const lines: string[] = [];
  const logger = createProgress({
    level,
    manyRuns,
    palette,
    write: (line) => lines.push(line.replace(/^[\d:]{8} /, "")),
  });
  return { logger, lines };
}

const result = {
  run: "r1",
  call: "1.1",
  tool: "bash",
  ms: 1234,
  isError: true,
  note: "exit 1",
  output: "a\nb",
};

test("a worker's lines name their run, and each event is one line", () => {
  const { logger, lines } = recorded(true);
  logger.info("worker.started", { worker: "w", concurrency: 1 });
  logger.info("run.claimed", { run: "r1", step: 0 });
  logger.info("run.claimed", { run: "r1", step: 3 });
  logger.info("run.started", { run: "r1", workspace: "/w", notes: ["2 files are not in the clone"] });
  logger.info("tool.finished", result);
  logger.info("run.finished", {
    run: "r1",
    status: "failed",
    reason: "stuck",
    error: "no\nway",
    changedFiles: 1,
    notes: [],
  });
  logger.info("run.waiting", { run: "r1", kind: "auth", note: "no key" });
  expect(lines).toEqual([
    "worker w takes up to 1 run at once",
    "r1 begins",
    "r1 goes on after step 3",
    "r1 works in /w; note: 2 files are not in the clone",
    "r1   ✗ bash · 1.2 s · exit 1 a b",
    "r1 failed (stuck) · 1 file changed: no way",
    "r1 waits (auth) no key",
  ]);
});

test("a single run's output takes lines of its own, and who shows it frames it", () => {
  const { logger, lines } = recorded(false);
  logger.info("worker.started", { worker: "w", concurrency: 1 });
  logger.info("run.claimed", { run: "r1", step: 0 });
  logger.info("tool.finished", { ...result, output: "1\n2\n3\n4\n5\n6\n7\n8" });
  logger.info("run.finished", {
    run: "r1",
    status: "succeeded",
    reason: "finished",
    changedFiles: 0,
    notes: ["empty folders: a"],
  });
  expect(lines).toEqual([
    ["  ✗ bash · 1.2 s · exit 1", ...["1", "2", "3", "4", "5", "6", "…"].map((line) => `      ${line}`)].join(
      "\n",
    ),
    "note: empty folders: a",
  ]);
});

test("a reply that says nothing shows how it was reasoned", () => {
  const { logger, lines } = recorded(false);
  const facts = {
    run: "r1",
    step: 1,
    ms: 10,
    promptTokens: null,
    completionTokens: null,
    reasoning: "so\nthat",
  };
  logger.info("step.answered", { ...facts, thought: null });
  logger.info("step.answered", { ...facts, thought: "hm" });
  expect(lines).toEqual(["step 1 10 ms so that", "step 1 10 ms hm"]);
});

test("thought, action and observation are shown whole at debug alone", () => {
  const facts = { run: "r1", step: 1, thought: "hm\nso", reasoning: "why", calls: ['bash {"command":"ls"}'] };
  for (const level of ["silent", "info"] as const) {
    const { logger, lines } = recorded(false, level);
    logger.debug("step.thought", facts);
    expect(lines).toEqual([]);
  }
  const { logger, lines } = recorded(false, "debug");
  logger.debug("step.thought", facts);
  logger.debug("tool.observed", { run: "r1", observation: "a\nb\n" });
  expect(lines[0]?.split("\n")).toEqual([
    "reasoning",
    "    why",
    "  thought",
    "    hm",
    "    so",
    "  action",
    '    bash {"command":"ls"}',
  ]);
  expect(lines[1]).toBe("  observation\n    a\n    b");
});

test("events without words of their own are shown as facts", () => {
  const { logger, lines } = recorded(true);
  logger.info("reconcile.failed", { part: "queue", error: "ECONNREFUSED" });
  expect(lines).toEqual(["reconcile.failed part=queue error=ECONNREFUSED"]);
});

test("what a local server can do is said in words, with the remedy only where the model could have more", () => {
  const { logger, lines } = recorded(true);
  const window = { model: "m", provider: "ollama", contextTokens: 4096, remedy: "set it" };
  logger.info("model.base_url", { baseUrl: "http://localhost:11434/v1" });
  logger.info("model.loading", { model: "m", provider: "ollama" });
  logger.info("model.window", { ...window, maxContextTokens: 40_960 });
  logger.info("model.window", { ...window, maxContextTokens: null });
  logger.info("protocol.changed", { run: "r1", from: "native", to: "react", why: "no\ntools" });
  expect(lines).toEqual([
    "asks http://localhost:11434/v1: the base URL lacked its path",
    "ollama loads m: that may take minutes",
    "m has a window of 4096 tokens at ollama, it could have 40960 (set it)",
    "m has a window of 4096 tokens at ollama",
    "r1 works in the protocol react, as the model takes no tools: no tools",
  ]);
});
