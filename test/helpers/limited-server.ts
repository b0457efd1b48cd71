import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { completion } from "./raw-server.ts";

/** A provider with limits: what it refuses, with which headers. Null serves the request. */
export type Refuse = (facts: {
  now: number;
  /** When the requests that were served came. */
  served: number[];
  model: string;
}) => { status: number; headers?: Record<string, string>; body?: unknown } | null;

/**
 * A model server that serves what `refuse` lets through: each run takes `steps` requests, the last one its answer. It counts
 * all requests, and is closed when the test ends.
 */
export async function startLimitedServer(options: { steps: number; refuse: Refuse }) {
  const served: number[] = [];
  const requests: { model: string; status: number }[] = [];
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    const { model, messages } = JSON.parse(text) as { model: string; messages: { role: string }[] };
    const now = performance.now();
    const refused = options.refuse({ now, served, model });
    requests.push({ model, status: refused?.status ?? 200 });
    if (refused) {
      const body = refused.body ?? { error: { message: "slow down", type: "rate_limit_exceeded" } };
      return send(response, { ...refused, body });
    }
    served.push(now);
    const step = messages.filter(({ role }) => role === "assistant").length + 1;
    send(response, { status: 200, body: replyOf(step, options.steps) });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}/v1`;
  return { url, served, requests, env: { OPENAI_BASE_URL: url, OPENAI_MODEL: "main" } };
}

function replyOf(step: number, steps: number) {
  if (step >= steps) return completion({ role: "assistant", content: "done" });
  const call = { id: `c${step}`, type: "function", function: { name: "list_files", arguments: "{}" } };
  return completion({ role: "assistant", content: null, tool_calls: [call] }, "tool_calls");
}

function send(
  response: ServerResponse,
  { status, headers = {}, body }: { status: number; headers?: Record<string, string>; body: unknown },
): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify(body));
}
