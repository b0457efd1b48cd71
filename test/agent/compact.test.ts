import { describe, expect, it } from "vitest";
import { RunAborted } from "../../src/abort.ts";
import { compact } from "../../src/agent/compact.ts";
import { think } from "../../src/agent/think.ts";
import { buildWindow, estimateWindow } from "../../src/agent/window.ts";
import { ModelError } from "../../src/errors.ts";
import { type Script, say, scriptedModel } from "../../src/model/scripted.ts";
import { estimateMessageTokens } from "../../src/model/tokens.ts";
import { brokenPairs, taskText, turnOf } from "./fixture.ts";
import { agentOf, firstOwner, nextOwner, type Owner, openTestStore, take } from "./owner.ts";

/** A run of `steps` steps, one command each. */
async function setUp(steps: number, script: Script = () => say("## Done\nthe record")) {
  const store = await openTestStore();
  const owner = await firstOwner(store);
  for (let step = 1; step <= steps; step += 1) work(owner, step);
  await owner.log.committed();
  const model = scriptedModel(script);
  return { store, owner, model, log: owner.log, runId: owner.claim.runId };
}

function work(owner: Owner, step: number): void {
  const command = { command: `make part${step} ${"x".repeat(200)}` };
  const call = {
    id: `c${step}`,
    type: "function",
    function: { name: "bash", arguments: JSON.stringify(command) },
  };
  const turn = turnOf({ content: `Now part ${step}.`, tool_calls: [call] }, "tool_calls", [call.id]);
  // Without the provider's count the window is what we estimate.
  turn.reply.usage = { ...turn.reply.usage, promptTokens: null };
  take(owner, turn);
}

const contentsOf = (owner: Owner) => buildWindow(owner.log.state).map(({ content }) => String(content));

describe("a compaction", () => {
  it("puts the model's record in the place of all but the newest steps", async () => {
    const { store, owner, model, log, runId } = await setUp(10);
    const before = estimateWindow(log.state);
    expect(await compact(agentOf(owner, model))).toBe(true);
    const [row] = await store.loadCompactions(runId);
    expect(row).toMatchObject({ n: 1, kind: "summary", body: "## Done\nthe record", modelCall: 11 });
    expect([row?.tokensBefore, row?.tokensAfter]).toEqual([before, estimateWindow(log.state)]);
    expect(estimateWindow(log.state)).toBeLessThan(before);
    const window = buildWindow(log.state);
    expect(contentsOf(owner)[1]).toMatch(new RegExp(`^${taskText}[^]*## Done\nthe record$`));
    expect(contentsOf(owner)).not.toContain("Now part 6.");
    expect(contentsOf(owner)).toContain("Now part 10.");
    expect(brokenPairs(window)).toEqual([]);
    expect(await store.loadMessages(runId)).toHaveLength(22);
    const call = (await store.loadModelCalls(runId)).at(-1);
    expect(call).toMatchObject({ purpose: "summary", state: "done", step: 10 });
  });

  it("asks for the record with the task and the history, and no tools", async () => {
    const { owner, model } = await setUp(10);
    await compact(agentOf(owner, model));
    const [request] = model.requests;
    expect(request?.tools).toBeUndefined();
    expect(request?.maxOutputTokens).toBe(500);
    const content = String(request?.messages[1]?.content);
    for (const fact of [taskText, "Now part 1.", "make part1", "of c1", "at most 250 words"]) {
      expect(content).toContain(fact);
    }
    expect(content).not.toContain("Now part 10.");
  });

  it("merges the record before it", async () => {
    const { store, owner, model, runId } = await setUp(10);
    await compact(agentOf(owner, model));
    for (const step of [11, 12, 13, 14, 15]) work(owner, step);
    await compact(agentOf(owner, model));
    expect(String(model.requests[1]?.messages[1]?.content)).toContain(
      "The earlier record:\n## Done\nthe record",
    );
    const rows = await store.loadCompactions(runId);
    expect(rows.map(({ n, kind }) => [n, kind])).toEqual([
      [1, "summary"],
      [2, "summary"],
    ]);
    expect(rows[1]?.throughSeq).toBeGreaterThan(rows[0]?.throughSeq ?? 0);
  });

  it("takes the text of a record without the thinking before it", async () => {
    const { owner, model, log } = await setUp(10, () => say("<think>Let me see.</think>\nthe record"));
    await compact(agentOf(owner, model));
    expect(log.state.compaction?.body).toBe("the record");
  });

  const unusable: [string, Script][] = [
    ["is empty", () => say("  \n")],
    ["is nothing but thinking", () => say("<think>So many files")],
    ["is cut off", () => ({ text: "## Done\nhalf of", finishReason: "length" })],
    ["is cut off, as another server says it", () => ({ text: "half", finishReason: "MAX_TOKENS" })],
    ["is stopped by a filter", () => ({ text: "half", finishReason: "content_filter" })],
    ["is longer than its share of the window", () => say("word ".repeat(2000))],
    ["fails as too long to ask for", () => new ModelError("overflow", "too long")],
    ["fails after all tries", () => new ModelError("retry", "server down")],
  ];
  it.each(unusable)("keeps the facts in a digest when the record %s", async (_, script) => {
    const { store, owner, model, log, runId } = await setUp(10, script);
    expect(await compact(agentOf(owner, model))).toBe(true);
    const newest = (await store.loadModelCalls(runId)).at(-1);
    expect(newest?.state).toBe("failed");
    expect(await store.loadCompactions(runId)).toMatchObject([{ kind: "digest", modelCall: newest?.n }]);
    const body = log.state.compaction?.body ?? "";
    for (const fact of ["step 6", "Now part 6.", "bash", "make part6", "of c6"]) expect(body).toContain(fact);
    expect(body).not.toContain("half");
    expect(body.split("\n").every((line) => line.length < 450)).toBe(true);
  });

  it("counts what a record cost that was not taken", async () => {
    const counted = { promptTokens: 70, completionTokens: 7, cachedTokens: 3 };
    const { store, owner, model, runId } = await setUp(10, () => ({ text: "", usage: counted }));
    const before = await store.getRun(runId);
    await compact(agentOf(owner, model));
    expect((await store.loadModelCalls(runId)).at(-1)).toMatchObject({ state: "failed", ...counted });
    const { promptTokens = 0, completionTokens = 0, cachedTokens = 0 } = before ?? {};
    expect(await store.getRun(runId)).toMatchObject({
      promptTokens: promptTokens + 70,
      completionTokens: completionTokens + 7,
      cachedTokens: cachedTokens + 3,
    });
  });

  it("keeps the earlier record in the digest while there is room", async () => {
    const answers: Script = (_, number) => (number === 1 ? say("an earlier fact") : say(""));
    const { owner, model, log } = await setUp(8, answers);
    await compact(agentOf(owner, model, { budgetTokens: 20_000 }));
    for (const step of [9, 10, 11]) work(owner, step);
    await compact(agentOf(owner, model, { budgetTokens: 20_000 }));
    expect(log.state.compaction?.body).toMatch(/^an earlier fact\n- step 5:/);
  });

  it("leaves the log as it was when the run is broken off meanwhile", async () => {
    const controller = new AbortController();
    const { store, owner, log, runId } = await setUp(10);
    const model = scriptedModel(() => {
      controller.abort(new RunAborted("shutdown"));
      return { text: "late", delayMs: 60_000 };
    });
    const before = structuredClone(log.state.entries);
    expect(await compact(agentOf(owner, model, { signal: controller.signal }))).toBeNull();
    await log.committed();
    expect(log.state.entries).toEqual(before);
    expect(await store.loadCompactions(runId)).toEqual([]);
  });

  it("passes on what is no failure of the model", async () => {
    const { store, owner, model, runId } = await setUp(10, () => new TypeError("a fault of ours"));
    await expect(compact(agentOf(owner, model))).rejects.toThrow("a fault of ours");
    expect(await store.loadCompactions(runId)).toEqual([]);
  });

  it("asks for nothing where nothing can be left out", async () => {
    const { owner, model } = await setUp(2);
    expect(await compact(agentOf(owner, model))).toBe(false);
    expect(model.callCount()).toBe(0);
  });

  it("survives its worker: the next owner sends the same request", async () => {
    const { store, owner, model } = await setUp(10);
    await compact(agentOf(owner, model));
    const after = await nextOwner(store, owner);
    expect(JSON.stringify(buildWindow(after.log.state))).toBe(JSON.stringify(buildWindow(owner.log.state)));
    expect(after.log.state).toEqual(owner.log.state);
  });
});

describe("asking the model", () => {
  it("never sends more than the budget, over a long run", async () => {
    const { owner, model } = await setUp(0, () => ({
      text: "Going on.",
      calls: [{ name: "bash", arguments: { command: "y".repeat(800) } }],
    }));
    const agent = agentOf(owner, model);
    for (let step = 0; step < 40; step += 1) {
      expect(await think(agent)).toBeUndefined();
      for (const call of [...owner.log.state.pending]) {
        owner.log.appendResult(call, { content: "z".repeat(400), isError: false, note: null, state: "done" });
      }
    }
    await owner.log.committed();
    expect(owner.log.state.compactions).toBeGreaterThan(3);
    for (const { messages } of model.requests) {
      const tokens = messages.reduce((sum, message) => sum + estimateMessageTokens(message), 0);
      expect(tokens).toBeLessThanOrEqual(agent.budgetTokens);
      expect(brokenPairs(messages)).toEqual([]);
    }
  });

  const aborts = (["shutdown", "lease_lost", "cancel"] as const).flatMap((kind) => [
    { kind, budgetTokens: 1500, because: "our estimate is over the budget" },
    { kind, budgetTokens: 100_000, because: "the server found it too long" },
  ]);
  it.each(aborts)(
    "ends no run as context_exhausted because of a $kind while the window was shortened since $because",
    async ({ kind, budgetTokens }) => {
      const controller = new AbortController();
      const { store, owner, runId } = await setUp(20);
      const model = scriptedModel((request) => {
        if (request.messages.length > 2) return new ModelError("overflow", "too long");
        controller.abort(new RunAborted(kind));
        return { text: "late", delayMs: 60_000 };
      });
      const agent = agentOf(owner, model, { signal: controller.signal, budgetTokens });
      expect(await think(agent)).toBeUndefined();
      await owner.log.committed();
      expect((await store.loadModelCalls(runId)).at(-1)).toMatchObject({
        purpose: "summary",
        state: "failed",
      });
    },
  );

  it("shortens the window once when the server finds it too long, then asks again", async () => {
    const { owner, log } = await setUp(10);
    const model = scriptedModel((request) =>
      request.messages.length > 12 ? new ModelError("overflow", "too long") : say("the record"),
    );
    const agent = agentOf(owner, model, { budgetTokens: 100_000 });
    expect(await think(agent)).toBeUndefined();
    expect(log.state.compactions).toBe(1);
    expect(await think(agent)).toBeUndefined();
    expect(log.state.answer).toBe("the record");
  });

  it.each([1500, 100_000])(
    "waits for a key where it is refused, and puts no digest in a summary's place (budget %i)",
    async (budgetTokens) => {
      const { store, owner, runId } = await setUp(20);
      const model = scriptedModel(() => new ModelError("auth", "check OPENAI_API_KEY"));
      expect(await think(agentOf(owner, model, { budgetTokens }))).toEqual({
        wait: { kind: "auth", note: "check OPENAI_API_KEY", wakeAt: null },
      });
      await owner.log.committed();
      expect(await store.loadCompactions(runId)).toEqual([]);
      expect((await store.loadModelCalls(runId)).at(-1)).toMatchObject({ state: "failed" });
      expect(model.callCount()).toBe(1);
    },
  );

  it("ends a run whose last step alone is too much, saying what to change", async () => {
    const { owner, model } = await setUp(1);
    const agent = agentOf(owner, model, { budgetTokens: 50 });
    expect(await think(agent)).toMatchObject({
      outcome: {
        reason: "context_exhausted",
        error: expect.stringMatching(/50 tokens.*contextTokens/),
      },
    });
  });
});
