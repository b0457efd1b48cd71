import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { applyOpenCalls, maxBadReplies, nextAction } from "../../src/agent/next-action.ts";
import { buildWindow } from "../../src/agent/window.ts";
import type { CallRow } from "../../src/db/read.ts";
import {
  answer,
  anyTurn,
  calls,
  type Entry,
  empty,
  entriesOf,
  fold,
  logOf,
  note,
  reply,
  result,
} from "./fixture.ts";

const limits = { maxSteps: 100 };
const next = (entries: Entry[], maxSteps = 100) => nextAction(fold(logOf(entries)), { maxSteps });

describe("the next action", () => {
  it("is to ask for the first step, then for one after the other", () => {
    expect(next([])).toEqual({ kind: "ask", step: 1 });
    expect(next([calls("a"), result(1, "a")])).toEqual({ kind: "ask", step: 2 });
  });

  it("is to run the calls of a reply that have no result yet, in the order asked", () => {
    const asked = calls("a", "b", "c");
    const ordinals = (entries: Entry[]) => {
      const action = next(entries);
      return action.kind === "act" ? action.calls.map(({ ordinal, wireId }) => [ordinal, wireId]) : action;
    };
    const [a, b, c] = [
      [1, "a"],
      [2, "b"],
      [3, "c"],
    ];
    expect(ordinals([asked])).toEqual([a, b, c]);
    expect(ordinals([asked, result(1, "a")])).toEqual([b, c]);
    expect(ordinals([asked, result(1, "a"), result(2, "b")])).toEqual([c]);
    expect(next([asked, result(1, "a"), result(2, "b"), result(3, "c")]).kind).toBe("ask");
  });

  it("tells calls with one id apart, the same way after every restart", () => {
    const state = fold(logOf([calls("x", "x")]));
    const ids = state.pending.map(({ wireId }) => wireId);
    expect(new Set(ids).size).toBe(2);
    expect(fold(logOf([calls("x", "x")])).pending.map(({ wireId }) => wireId)).toEqual(ids);
  });

  it("is to finish with the answer", () => {
    expect(next([calls("a"), result(1, "a"), answer("It is 42.")])).toEqual({
      kind: "finish",
      outcome: { status: "succeeded", reason: "finished", result: "It is 42.", error: null },
    });
  });

  it("is to ask again after an answer that was objected to", () => {
    expect(next([answer("done"), note("the tests fail")])).toEqual({ kind: "ask", step: 2 });
  });

  it("is to finish when the model refuses", () => {
    const action = next([reply({ content: null, refusal: "I will not." })]);
    expect(action).toMatchObject({ kind: "finish", outcome: { status: "failed", reason: "refused" } });
    expect(action.kind === "finish" && action.outcome.error).toContain("I will not.");
  });

  it("is to tell the model what is wrong with a reply, then to ask again", () => {
    const told = next([empty()]);
    expect(told.kind).toBe("tell");
    expect(told.kind === "tell" && told.text).toMatch(/empty/);
    expect(next([empty(), note("told")])).toEqual({ kind: "ask", step: 2 });
  });

  it("is to finish after as many unusable replies in a row as are allowed", () => {
    const bad = Array.from({ length: maxBadReplies - 1 }, () => [empty(), note("told")]).flat();
    expect(next(bad).kind).toBe("ask");
    const action = next([...bad, reply({ content: "…" }, "length")]);
    expect(action).toMatchObject({ kind: "finish", outcome: { status: "failed", reason: "bad_replies" } });
    expect(action.kind === "finish" && action.outcome.error).toMatch(/^3 replies in a row.*cut off/);
  });

  it("counts unusable replies anew after one that could be used", () => {
    const bad = [empty(), note("told"), empty(), note("told")];
    const between = [calls("a"), result(1, "a")];
    expect(next([...bad, ...between, empty()]).kind).toBe("tell");
    expect(next([...bad, ...between, ...bad, empty()])).toMatchObject({ outcome: { reason: "bad_replies" } });
  });

  it("is to finish at the step limit, naming it and the way on", () => {
    const action = next([calls("a"), result(1, "a"), calls("b"), result(1, "b")], 2);
    expect(action).toMatchObject({ kind: "finish", outcome: { status: "failed", reason: "step_limit" } });
    expect(action.kind === "finish" && action.outcome.error).toMatch(/limit of 2 steps.*--max-steps/);
  });

  it("at the step limit still runs the calls of the last step and takes an answer", () => {
    expect(next([calls("a")], 1).kind).toBe("act");
    expect(next([answer("done")], 1)).toMatchObject({ outcome: { reason: "finished" } });
    expect(next([empty()], 1)).toMatchObject({ outcome: { reason: "step_limit" } });
  });

  it("counts steps that the window no longer holds", () => {
    const rows = logOf([calls("a"), result(1, "a"), calls("b"), result(1, "b")]);
    const tail = rows.filter(({ seq }) => seq <= 2 || seq > 4);
    expect(nextAction(fold(tail), { maxSteps: 2 })).toMatchObject({ outcome: { reason: "step_limit" } });
  });

  it("knows which of the open calls an earlier owner had started", () => {
    const state = fold(logOf([calls("a", "b", "c"), result(1, "a")]));
    const row = { step: 1, epoch: 4, startedAt: 99 };
    const open = [
      { ...row, ordinal: 2, state: "started" },
      { ...row, ordinal: 3, state: "planned" },
    ] as CallRow[];
    applyOpenCalls(state, open);
    expect(state.pending.map(({ startedEpoch, startedAt }) => [startedEpoch, startedAt])).toEqual([
      [4, 99],
      [null, null],
    ]);
  });
});

describe("the fold", () => {
  const anyLog = fc.array(anyTurn, { maxLength: 12 }).map((turns) => logOf(turns.flatMap(entriesOf)));

  it("comes to the same state and action wherever a restart cuts the log", () => {
    fc.assert(
      fc.property(anyLog, fc.nat(), (rows, cut) => {
        const at = cut % (rows.length + 1);
        const resumed = fold(rows.slice(at), fold(rows.slice(0, at)));
        const whole = fold(rows);
        expect(resumed).toEqual(whole);
        expect(nextAction(resumed, limits)).toEqual(nextAction(whole, limits));
        expect(JSON.stringify(buildWindow(resumed))).toBe(JSON.stringify(buildWindow(whole)));
      }),
      { numRuns: 200 },
    );
  });

  it("makes every request extend the one before byte for byte", () => {
    fc.assert(
      fc.property(anyLog, (rows) => {
        let before = "";
        for (let length = 2; length <= rows.length; length += 1) {
          const state = fold(rows.slice(0, length));
          if (nextAction(state, limits).kind !== "ask") continue;
          const request = JSON.stringify(buildWindow(state)).slice(0, -1);
          expect(request.startsWith(before)).toBe(true);
          before = request;
        }
      }),
      { numRuns: 100 },
    );
  });
});
