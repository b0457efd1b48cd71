import { afterEach, describe, expect, it } from "vitest";
import type { ChatMessage } from "../../src/model/model.ts";
import { openaiModel } from "../../src/model/openai.ts";
import { profileOf, providerNames } from "../../src/model/profiles.ts";
import { bridgeRoles } from "../../src/model/roles.ts";
import { completion, startRawServer } from "../helpers/raw-server.ts";

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

const call = { id: "c1", type: "function" as const, function: { name: "bash", arguments: "{}" } };
const history: ChatMessage[] = [
  { role: "system", content: "s" },
  { role: "user", content: "task" },
  { role: "user", content: "one more thing" },
  { role: "assistant", content: "", tool_calls: [call] },
  { role: "tool", tool_call_id: "c1", content: "r" },
  { role: "user", content: "stuck warning" },
];
const rolesOf = (messages: ChatMessage[]) => messages.map(({ role }) => role);

describe("the order of roles", () => {
  it("never has a user message behind a result or another user message", () => {
    expect(rolesOf(bridgeRoles(history))).toEqual([
      ...["system", "user", "assistant", "user", "assistant", "tool", "assistant", "user"],
    ]);
  });

  it("of a longer history begins with that of a shorter one, byte for byte", () => {
    for (let length = 0; length < history.length; length += 1) {
      const shorter = bridgeRoles(history.slice(0, length));
      expect(JSON.stringify(bridgeRoles(history).slice(0, shorter.length))).toBe(JSON.stringify(shorter));
    }
  });

  it.each(providerNames)("goes to %s as its profile says", async (name) => {
    const server = await startRawServer(() => ({ body: completion({ role: "assistant", content: "hi" }) }));
    closers.push(server.close);
    const profile = profileOf(server.url, name);
    const model = openaiModel({ baseUrl: server.url, apiKey: null, profile });
    await model.ask({ model: "m", messages: history }, new AbortController().signal);

    expect(server.requests[0]?.body).toHaveProperty(
      "messages",
      profile.allowsAnyOrder ? history : bridgeRoles(history),
    );
    expect(profile.allowsAnyOrder).toBe(
      !/mistral|ollama|vllm|llama|lmstudio|litellm|openrouter|generic/.test(name),
    );
  });
});
