import { afterEach, expect, test, vi } from "vitest";
import { timeoutsFor } from "../../src/model/deadline.ts";
import { openaiModel } from "../../src/model/openai.ts";
import { said, startLocalServer } from "../helpers/local-server.ts";

afterEach(() => void vi.useRealTimers());

const { firstTokenTimeoutMs: remoteMs } = timeoutsFor("https://api.openai.com/v1");
const { firstTokenTimeoutMs: localMs } = timeoutsFor("http://127.0.0.1/v1");

/** Asks a server of this machine that answers when the request is this old. */
async function askAfter(ms: number) {
  const server = await startLocalServer({
    "POST /v1/chat/completions": async () => {
      await vi.advanceTimersByTimeAsync(ms);
      return said("loaded");
    },
  });
  // Only the limits of the request run by this clock; sockets have their own.
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const model = openaiModel({ baseUrl: `${server.url}/v1`, apiKey: null });
  const request = { model: "m", messages: [{ role: "user" as const, content: "hello" }] };
  return model.ask(request, new AbortController().signal);
}

test("a model that takes longer to load than any remote one may take to begin is waited for", async () => {
  const { message } = await askAfter(remoteMs + 1_000);
  expect(message.content).toBe("loaded");
});

test("a model that never loads ends the request at the limit, which is named", async () => {
  await expect(askAfter(localMs + 1_000)).rejects.toThrow(`within ${localMs} ms (firstTokenTimeoutMs)`);
});
