import { expect, test } from "vitest";
import { liveReply } from "../../src/agent/live-reply.ts";
import { type Logger, silentLogger, withFacts } from "../../src/log.ts";
import { createRedact, redactingLogger } from "../../src/redact.ts";

test("how far a reply is is told now and then, whatever stands around the logger, and never what it says", () => {
  const told: unknown[] = [];
  const watched: Logger = { ...silentLogger, live: (event, facts) => told.push({ event, ...facts }) };
  const logger = withFacts(redactingLogger(watched, createRedact([])), { run: "r1" });
  const { onDelta } = liveReply(logger, 3);
  for (let piece = 0; piece < 1000; piece += 1) onDelta?.({ text: "", reasoning: "hm", call: "" });
  expect(told[0]).toEqual({ event: "step.answering", run: "r1", step: 3, reasoningChars: 2, answerChars: 0 });
  expect(told.length).toBeLessThan(100);
});

test("where nobody watches, nothing is asked for", () => {
  expect(liveReply(silentLogger, 1)).toEqual({});
});
