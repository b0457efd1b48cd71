import { describe, expect, it } from "vitest";
import { ModelError } from "../../src/errors.ts";
import { call, calls, say, scriptedModel } from "../../src/model/scripted.ts";

const request = { model: "m", messages: [{ role: "user" as const, content: "hello" }] };
const never = new AbortController().signal;

describe("a scripted model", () => {
  it("answers from the messages alone: another process gives the same reply, ids and usage included", async () => {
    const script = () =>
      calls([
        { name: "bash", arguments: { command: "ls" } },
        { name: "x", arguments: "{" },
      ]);
    const first = await scriptedModel(script).ask(request, never);
    expect(await scriptedModel(script).ask(request, never)).toEqual(first);
    expect(first.message.tool_calls).toEqual([
      { id: "call_1_1", type: "function", function: { name: "bash", arguments: '{"command":"ls"}' } },
      { id: "call_1_2", type: "function", function: { name: "x", arguments: "{" } },
    ]);
    expect(first.finishReason).toBe("tool_calls");
    expect(first.usage.promptTokens).toBeGreaterThan(0);
    expect(first.usage.completionTokens).toBeGreaterThan(0);
  });

  it("keeps its requests and counts its calls", async () => {
    const model = scriptedModel((_, callNumber) => (callNumber === 1 ? call("a", {}) : say("done")));
    await model.ask(request, never);
    const { message, finishReason } = await model.ask(request, never);
    expect([message, finishReason]).toEqual([{ role: "assistant", content: "done" }, "stop"]);
    expect(model.requests).toEqual([request, request]);
    expect(model.callCount()).toBe(2);
  });

  it("throws the error that the script gives", async () => {
    const error = new ModelError("quota", "no money");
    await expect(scriptedModel(() => error).ask(request, never)).rejects.toBe(error);
  });

  it("can be cut, slow and aborted", async () => {
    const controller = new AbortController();
    const reason = new Error("stop");
    const model = scriptedModel(() => ({ ...say("late"), finishReason: "length", delayMs: 1 }));
    expect((await model.ask(request, never)).finishReason).toBe("length");
    const slow = scriptedModel(() => {
      setImmediate(() => controller.abort(reason));
      return { ...say("late"), delayMs: 60_000 };
    });
    await expect(slow.ask(request, controller.signal)).rejects.toBe(reason);
    await expect(slow.ask(request, controller.signal)).rejects.toBe(reason);
    expect(slow.callCount()).toBe(1);
  });
});
