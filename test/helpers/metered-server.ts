import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { onTestFinished } from "vitest";

/** What a metered server charges, in micro-dollars a token. */
export const rates = { prompt: 1, completion: 4 };

interface Body {
  messages: unknown[];
  tools?: unknown[];
  max_tokens: number;
}

/** A model that works on for ever, and a bill that does not care what became of its replies. */
export interface MeteredServer {
  /** With `/v1`. */
  url: string;
  /** Micro-dollars so far. */
  billed(): number;
  requests(): number;
}

/**
 * Starts a server that calls `list_files` in every reply. It counts tokens itself, and bills what it has begun also where it
 * then answers 504, cuts the connection, or says no usage; what fails at once, with 500, is free.
 */
export async function startMeteredServer(random: () => number): Promise<MeteredServer> {
  let billed = 0;
  let requests = 0;
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    requests += 1;
    const body = JSON.parse(text) as Body;
    const fate = random();
    if (fate < 0.05) return send(response, 500, { error: { message: "no" } });
    const prompt = Math.ceil(Buffer.byteLength(JSON.stringify([body.messages, body.tools])) / 3);
    const completion = Math.ceil(body.max_tokens * (0.2 + 0.8 * random()));
    billed += prompt * rates.prompt + completion * rates.completion;
    await delay(20 + 80 * random());
    if (fate < 0.1) return send(response, 504, { error: { message: "gave up" } });
    if (fate < 0.15) return response.destroy();
    const usage = { prompt_tokens: prompt, completion_tokens: completion };
    return send(response, 200, reply(requests, fate < 0.2 ? undefined : usage));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/v1`, billed: () => billed, requests: () => requests };
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}

function reply(number: number, usage: object | undefined) {
  const tool = { id: `c${number}`, type: "function", function: { name: "list_files", arguments: "{}" } };
  const message = { role: "assistant", content: null, tool_calls: [tool] };
  return {
    id: `r${number}`,
    model: "m",
    choices: [{ index: 0, message, finish_reason: "tool_calls" }],
    usage,
  };
}
