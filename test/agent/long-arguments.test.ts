import { describe, expect, it, test } from "vitest";
import { fitReply } from "../../src/agent/long-arguments.ts";
import { think } from "../../src/agent/think.ts";
import { buildWindow, estimateWindow } from "../../src/agent/window.ts";
import { say, scriptedModel } from "../../src/model/scripted.ts";
import { estimateMessageTokens, estimateTokens } from "../../src/model/tokens.ts";
import { exportMessages } from "../../src/report/export.ts";
import { brokenPairs, fold, logOf, reply, turnOf } from "./fixture.ts";
import { agentOf, firstOwner, nextOwner, openTestStore, take } from "./owner.ts";

const call = (id: string, input: unknown) => ({
  id,
  type: "function" as const,
  function: { name: "write_file", arguments: JSON.stringify(input) },
});
const big = `the head${"x".repeat(1_000_000)}the tail`;

/** The arguments of the first reply as a budget of so many tokens shows them. */
function shown(inputs: unknown[], budgetTokens: number) {
  const calls = inputs.map((input, index) => call(`c${index}`, input));
  const rows = logOf([reply({ content: "", tool_calls: calls })]);
  const [entry] = fold(rows.map((row) => ({ ...row, tokens: estimateTokens(row.body) }))).entries;
  if (!entry) throw new Error("expected a reply");
  const fitted = fitReply(entry, budgetTokens);
  const { message } = fitted;
  const texts = message.role === "assistant" ? (message.tool_calls ?? []) : [];
  const read = texts.map((each) => JSON.parse("function" in each ? each.function.arguments : ""));
  return { entry, fitted, read, tokens: estimateMessageTokens(message) };
}

test("the text of a reply without calls keeps head and tail, as in the text protocols", () => {
  const rows = logOf([reply({ content: big })]);
  const [entry] = fold(rows.map((row) => ({ ...row, tokens: estimateTokens(row.body) }))).entries;
  if (!entry) throw new Error("expected a reply");
  const { message, tokens } = fitReply(entry, 20_000);
  expect(message.content).toMatch(
    /^the headx+\n\[… \d{6} characters, 0 lines left out; only here\]\nx+the tail$/,
  );
  expect(tokens).toBe(estimateMessageTokens(message));
  expect(tokens).toBeLessThanOrEqual(5_000);
});

describe("the arguments of a reply", () => {
  it("are shown as they came while the reply takes no more than a quarter of the budget", () => {
    const { entry, fitted } = shown([{ path: "a", content: "x".repeat(8_000) }], 20_000);
    expect(fitted).toBe(entry);
  });

  it("keep their names, and head and tail of what is long, saying how much is gone", () => {
    const { read, fitted, tokens } = shown(
      [
        { path: "a.txt", content: big },
        { path: "b.txt", content: "short" },
      ],
      20_000,
    );
    expect(read[0].path).toBe("a.txt");
    expect(read[0].content).toMatch(
      /^the headx+\n\[… \d{6} characters, 0 lines left out; only here: the call was made with all of it\]\nx+the tail$/,
    );
    expect(read[1]).toEqual({ path: "b.txt", content: "short" });
    expect(tokens).toBeLessThanOrEqual(5_000);
    expect(tokens).toBeGreaterThan(1_000);
    expect(fitted.tokens).toBe(tokens);
  });

  it.each([
    ["many texts in a list", { edits: Array.from({ length: 20 }, () => ({ new: "漢字".repeat(20_000) })) }],
    ["numbers without end", { numbers: Array.from({ length: 200_000 }, (_, n) => n) }],
    ["quotes and line ends", { content: '"\\\n'.repeat(100_000) }],
  ])("fit whatever they hold: %s", (_, input) => {
    const { tokens, read } = shown([input], 4_000);
    expect(tokens).toBeLessThanOrEqual(1_000);
    expect(JSON.stringify(read)).toContain("left out; only here");
  });
});

describe("a call with an argument beyond the window", () => {
  const budgetTokens = 4_000;

  it("is recorded whole, shown cut, the same to the next owner, and does not end the run", async () => {
    const store = await openTestStore();
    const first = await firstOwner(store, { budgetTokens });
    const turn = turnOf(
      { content: "", tool_calls: [call("c1", { path: "a", content: big })] },
      "tool_calls",
      ["c1"],
    );
    turn.reply.usage = { ...turn.reply.usage, promptTokens: null };
    take(first, turn);
    const model = scriptedModel(() => say("done"));
    expect(await think(agentOf(first, model, { budgetTokens }))).toBeUndefined();
    await first.log.committed();
    expect(first.log.state.answer).toBe("done");
    const messages = model.requests[0]?.messages ?? [];
    expect(messages.reduce((sum, each) => sum + estimateMessageTokens(each), 0)).toBeLessThan(budgetTokens);
    expect(brokenPairs(messages)).toEqual([]);
    expect(estimateWindow(first.log.state)).toBeLessThan(budgetTokens);
    const second = await nextOwner(store, first, { budgetTokens });
    expect(buildWindow(second.log.state)).toEqual(buildWindow(first.log.state));
    expect(estimateWindow(second.log.state)).toBe(estimateWindow(first.log.state));
    const run = await store.findRun(first.claim.runId);
    expect(JSON.stringify(await exportMessages(store, run))).toContain(big);
  });

  it("is run with the whole", async () => {
    const store = await openTestStore();
    const owner = await firstOwner(store, { budgetTokens });
    const { reply: answer } = turnOf(
      { content: "", tool_calls: [call("c1", { content: big })] },
      "tool_calls",
      ["c1"],
    );
    owner.log.appendReply(owner.log.plan("step", "m"), answer, () => "unsafe");
    expect(owner.log.state.pending[0]?.argumentsText).toContain(big);
    expect(JSON.stringify(buildWindow(owner.log.state))).not.toContain(big);
    await owner.log.committed();
  });
});
