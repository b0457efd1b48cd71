import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { windowTokens } from "../../src/agent/measurement.ts";
import type { LogEntry } from "../../src/agent/next-action.ts";
import { addImages } from "../../src/agent/task-images.ts";
import { buildWindow, chooseCut, estimateWindow, needsCompaction } from "../../src/agent/window.ts";
import { anyTurn, brokenPairs, calls, entriesOf, fold, logOf, note, result, taskText } from "./fixture.ts";

/** A state after `steps` steps of one call each; every message takes `tokens`. */
function stateOf(steps: number, tokens = 10) {
  const entries = Array.from({ length: steps }, (_, n) => [calls(`c${n}`), result(1, `c${n}`)]).flat();
  return fold(logOf(entries).map((row) => ({ ...row, tokens })));
}

const firstKept = (entries: LogEntry[], throughSeq: number | undefined) =>
  entries.find(({ seq }) => seq > (throughSeq ?? 0));

describe("the window", () => {
  it("is the system prompt, the task, and the log", () => {
    const messages = buildWindow(stateOf(1));
    expect(messages.map(({ role }) => role)).toEqual(["system", "user", "assistant", "tool"]);
    expect(messages[0]?.content).toBe("You are an agent.");
    expect(messages[1]?.content).toBe(taskText);
  });

  it("holds the record of what was left out behind the task, in the same message", () => {
    const state = stateOf(2);
    state.entries = state.entries.slice(2);
    state.compaction = { throughSeq: 4, body: "## Done\nall of it", tokens: 9 };
    const messages = buildWindow(state);
    expect(messages.map(({ role }) => role)).toEqual(["system", "user", "assistant", "tool"]);
    expect(messages[1]?.content).toMatch(new RegExp(`^${taskText}\n\n--- Record .*---\n## Done\nall of it$`));
  });

  it("never has two user messages in a row, whatever a run was told between", () => {
    const state = fold(logOf([note("moved"), calls("c1"), result(1, "c1"), note("one"), note("two")]));
    const messages = buildWindow(state);
    expect(messages.map(({ role }) => role)).toEqual(["system", "user", "assistant", "tool", "user"]);
    expect([messages[1]?.content, messages[4]?.content]).toEqual([`${taskText}\n\nmoved`, "one\n\ntwo"]);
    const picture = { type: "image_url" as const, image_url: { url: "data:," } };
    if (state.task) state.task.message = { role: "user", content: [{ type: "text", text: "see" }, picture] };
    const parts = [{ type: "text", text: "see" }, picture, { type: "text", text: "moved" }];
    expect(buildWindow(state)[1]).toEqual({ role: "user", content: parts });
  });

  it("keeps the images of the task behind its text, word for word, and the record behind them", () => {
    const state = stateOf(2);
    const task = addImages({ role: "user", content: taskText }, ["blob:abc", "https://a.example/b.png"]);
    if (state.task) state.task.message = task;
    state.compaction = { throughSeq: 4, body: "all of it", tokens: 9 };
    const [, shown] = buildWindow(state);
    expect(shown?.content).toEqual([
      ...(task.content as unknown[]),
      { type: "text", text: expect.stringMatching(/--- Record .*---\nall of it$/) },
    ]);
  });

  it("is estimated with all that a request sends", () => {
    const state = stateOf(2);
    const prompt = state.system?.tokens ?? 0;
    expect(prompt).toBeGreaterThan(4);
    expect(estimateWindow(state)).toBe(50 + prompt);
    state.toolTokens = 100;
    state.compaction = { throughSeq: 2, body: "", tokens: 1000 };
    expect(estimateWindow(state)).toBe(1150 + prompt);
  });

  it("is estimated alike whether or not a compaction left out the message that named the newest prompt", () => {
    const rows = logOf([{ kind: "system", body: '{"role":"system","prompt":"other"}' }, calls("c1")]);
    const whole = fold(rows.map((row) => ({ ...row, tokens: row.seq === 3 ? 999 : 10 })));
    const without = fold(rows.filter(({ seq }) => seq !== 3));
    expect(buildWindow(whole)).toEqual(buildWindow(without));
    expect(estimateWindow(whole)).toBe(estimateWindow(without));
  });

  it("is measured by the provider's own count, the rest estimated", () => {
    expect(windowTokens(130, null)).toBe(130);
    expect(windowTokens(130, { promptTokens: 150, estimatedTokens: 100 })).toBe(180);
  });

  it("is compacted beyond four fifths of the budget", () => {
    expect(needsCompaction(80, 100)).toBe(false);
    expect(needsCompaction(81, 100)).toBe(true);
  });
});

describe("the cut of a compaction", () => {
  it("leaves the four newest steps", () => {
    const { entries } = stateOf(10);
    expect(firstKept(entries, chooseCut(entries, 1000))?.step).toBe(7);
  });

  it("leaves fewer where they take more than a third of the budget, but always the last", () => {
    const { entries } = stateOf(10, 100);
    expect(firstKept(entries, chooseCut(entries, 1200))?.step).toBe(9);
    expect(firstKept(entries, chooseCut(entries, 100))?.step).toBe(10);
  });

  it("is none where nothing but those steps is left", () => {
    expect(chooseCut([], 100)).toBeUndefined();
    expect(chooseCut(stateOf(1, 1000).entries, 100)).toBeUndefined();
    expect(chooseCut(stateOf(4).entries, 1000)).toBeUndefined();
  });

  it("never parts a call from its result, never loses the task, and comes to an end", () => {
    const anyState = fc
      .tuple(fc.array(anyTurn, { minLength: 1, maxLength: 12 }), fc.infiniteStream(fc.nat(200)))
      .map(([turns, sizes]) => {
        const rows = logOf(turns.flatMap(entriesOf));
        return fold(rows.map((row) => ({ ...row, tokens: sizes.next().value ?? 1 })));
      });
    fc.assert(
      fc.property(anyState, fc.integer({ min: 1, max: 2000 }), (state, budgetTokens) => {
        const lastStep = state.entries.filter(({ step }) => step === state.steps);
        let throughSeq = chooseCut(state.entries, budgetTokens);
        for (let round = 0; throughSeq !== undefined; round += 1) {
          const before = state.entries.length;
          const cut = throughSeq;
          state.entries = state.entries.filter(({ seq }) => seq > cut);
          state.compaction = { throughSeq: cut, body: "the record", tokens: 3 };
          expect(state.entries.length).toBeLessThan(before);
          expect(brokenPairs(buildWindow(state))).toEqual([]);
          expect(String(buildWindow(state)[1]?.content).startsWith(taskText)).toBe(true);
          expect(state.entries.slice(-lastStep.length)).toEqual(lastStep);
          expect(round).toBeLessThan(12);
          throughSeq = chooseCut(state.entries, budgetTokens);
        }
      }),
      { numRuns: 300 },
    );
  });
});
