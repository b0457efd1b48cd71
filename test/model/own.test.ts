import { expect, it } from "vitest";
import type { ModelReply } from "../../src/model/model.ts";
import { noUsage } from "../../src/model/model.ts";
import { checkedModel } from "../../src/model/own.ts";

const request = { model: "m", messages: [{ role: "user" as const, content: "x" }] };
const ask = (reply: unknown) =>
  checkedModel({ ask: async () => reply as ModelReply }).ask(request, new AbortController().signal);

it.each([[undefined], [null], ["text"], [{}], [{ message: "oops" }]])(
  "a model of one's own that gives %j is told what was expected",
  async (reply) => {
    await expect(ask(reply)).rejects.toMatchObject({
      name: "ModelError",
      kind: "invalid",
      message: expect.stringMatching(/^expected the model's own ask to give \{ message.*, got /),
    });
  },
);

it("counts that are none are unknown, and what else is left out is too", async () => {
  const message = { role: "assistant", content: "done", extra: 1 };
  expect(await ask({ message })).toEqual({ message, finishReason: null, usage: noUsage, responseId: null });
  const usage = { promptTokens: -5, completionTokens: Number.NaN, cachedTokens: "7", reasoningTokens: 2.6 };
  expect((await ask({ message, usage })).usage).toEqual({ ...noUsage, reasoningTokens: 3 });
});
