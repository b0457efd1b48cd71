import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { nextAction } from "../../src/agent/next-action.ts";
import { buildWindow, chooseCut } from "../../src/agent/window.ts";
import { LeaseLostError } from "../../src/errors.ts";
import { anyTurn, protocol, taskText, turnOf } from "./fixture.ts";
import { firstOwner, nextOwner, type Owner, openTestStore, take } from "./owner.ts";

const callTurn = (...ids: string[]) =>
  turnOf(
    {
      content: null,
      tool_calls: ids.map((id) => ({
        id,
        type: "function",
        function: { name: "bash", arguments: "{}" },
      })),
    },
    "tool_calls",
    ids,
  );

const requestOf = ({ log }: Owner) => JSON.stringify(buildWindow(log.state));

/** A compaction as the loop makes it, where there is something to leave out. */
function compact({ log }: Owner, kind: "summary" | "digest"): void {
  const throughSeq = chooseCut(log.state.entries, 100);
  if (throughSeq === undefined) return;
  const n = log.plan("summary", "m");
  const { reply } = turnOf({ content: "the record" }, "stop", []);
  if (kind === "summary") {
    log.compact({ kind, throughSeq, body: "the record" }, { n, reply });
  } else {
    log.failModelCall(n, "no");
    log.compact({ kind, throughSeq, body: "a digest" }, null);
  }
}

describe("a run's log", () => {
  it("begins with the prompt's hash and the task, once", async () => {
    const store = await openTestStore();
    const first = await firstOwner(store);
    const second = await nextOwner(store, first);
    second.log.start({ system: "You are an agent.", tools: [] }, "hash", protocol.renderNote(taskText));
    await second.log.committed();
    const rows = await store.loadMessages(first.claim.runId);
    expect(rows.map(({ kind }) => kind)).toEqual(["system", "task"]);
    expect(JSON.parse(rows[1]?.body ?? "")).toEqual({ role: "user", content: taskText });
  });

  it("shows the next owner the same state, request and measure, whatever happened and however often it died", async () => {
    const moves = fc.array(
      fc.oneof(
        { weight: 5, arbitrary: anyTurn },
        { weight: 2, arbitrary: fc.constantFrom("summary" as const, "digest" as const) },
        { weight: 2, arbitrary: fc.constantFrom("lost" as const, "failed" as const, "died" as const) },
      ),
      { maxLength: 10 },
    );
    await fc.assert(
      fc.asyncProperty(moves, async (list) => {
        const store = await openTestStore();
        let owner = await firstOwner(store);
        for (const move of [...list, "died" as const]) {
          if (typeof move === "object") take(owner, move);
          else if (move === "lost") owner.log.plan("step", "m");
          else if (move === "failed") owner.log.failModelCall(owner.log.plan("step", "m"), "no");
          else if (move === "died") owner = await comparedWithNext(owner);
          else compact(owner, move);
          // Only the newest request of a run can be open: who plans the next one has seen the end of this.
          if (move === "lost") owner = await comparedWithNext(owner);
        }

        async function comparedWithNext(before: Owner): Promise<Owner> {
          await before.log.committed();
          const after = await nextOwner(store, before);
          expect(after.log.state).toEqual(before.log.state);
          expect(requestOf(after)).toBe(requestOf(before));
          expect(after.log.measured()).toEqual(before.log.measured());
          const limits = { maxSteps: 5 };
          expect(nextAction(after.log.state, limits)).toEqual(nextAction(before.log.state, limits));
          return after;
        }
      }),
      { numRuns: 25 },
    );
  });

  it("goes on after a kill between reply and results with the calls that are open", async () => {
    const store = await openTestStore();
    const first = await firstOwner(store);
    first.log.appendReply(first.log.plan("step", "m"), callTurn("a", "b", "c").reply, () => "unsafe");
    const [a, b] = first.log.state.pending;
    if (!a || !b) throw new Error("expected open calls");
    first.log.appendResult(a, { content: "done", isError: false, note: null, state: "done" });
    first.log.startCall(b);
    await first.log.committed();
    const second = await nextOwner(store, first);
    expect(second.log.state.pending.map(({ wireId, startedEpoch }) => [wireId, startedEpoch])).toEqual([
      ["b", 1],
      ["c", null],
    ]);
    expect(nextAction(second.log.state, { maxSteps: 100 }).kind).toBe("act");
  });

  it("asks for no committed reply again: the next owner has its answer", async () => {
    const store = await openTestStore();
    const first = await firstOwner(store);
    first.log.appendReply(
      first.log.plan("step", "m"),
      turnOf({ content: "42" }, "stop", []).reply,
      () => "pure",
    );
    await first.log.committed();
    const second = await nextOwner(store, first);
    expect(nextAction(second.log.state, { maxSteps: 100 })).toMatchObject({ outcome: { result: "42" } });
  });

  it("counts steps over all owners", async () => {
    const store = await openTestStore();
    let owner = await firstOwner(store);
    for (let step = 1; step <= 3; step += 1) {
      expect(nextAction(owner.log.state, { maxSteps: 3 })).toEqual({ kind: "ask", step });
      take(owner, callTurn("a"));
      await owner.log.committed();
      owner = await nextOwner(store, owner);
    }
    expect(nextAction(owner.log.state, { maxSteps: 3 })).toMatchObject({ outcome: { reason: "step_limit" } });
  });

  it("tells its owner at commit that the run belongs to another, and writes nothing", async () => {
    const store = await openTestStore();
    const first = await firstOwner(store);
    const second = await nextOwner(store, first);
    take(first, callTurn("late"));
    await expect(first.log.committed()).rejects.toBeInstanceOf(LeaseLostError);
    take(second, callTurn("a"));
    await second.log.committed();
    const calls = await store.loadCalls(second.claim.runId);
    expect(calls.map(({ providerId }) => providerId)).toEqual(["a"]);
  });

  it("hears of requests to cancel and pause when it plans", async () => {
    const store = await openTestStore();
    const { log, claim } = await firstOwner(store);
    await store.pause(claim.runId);
    expect(log.asked()).toEqual({ cancelAt: null, pauseAt: null });
    log.plan("step", "m");
    await log.committed();
    expect(log.asked()).toEqual({ cancelAt: null, pauseAt: expect.any(Number) });
  });

  it("stores a reply as it came, with members that nobody knows", async () => {
    const store = await openTestStore();
    const { log, claim } = await firstOwner(store);
    const { reply } = turnOf(
      { content: null, reasoning_content: "hm", x: [1], ...callTurn("a").reply.message },
      "tool_calls",
      ["a"],
    );
    log.appendReply(log.plan("step", "m"), reply, () => "unsafe");
    await log.committed();
    const row = (await store.loadMessages(claim.runId)).at(-1);
    expect(JSON.parse(row?.body ?? "")).toEqual({ ...reply.message, finish_reason: "tool_calls" });
  });
});
