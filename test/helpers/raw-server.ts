import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

/** One response, byte for byte; an object as body is encoded as JSON. */
export interface RawResponse {
  status?: number;
  headers?: Record<string, string>;
  body?: unknown;
  /** Sends these instead of a body, each by itself; `hang` then leaves the reply open. */
  pieces?: (string | Uint8Array)[];
  /** Between two of them. */
  everyMs?: number;
  /** Sends this many bytes of the body, then cuts the connection. */
  cutAfter?: number;
  /** Never answers. */
  hang?: boolean;
}

export interface RawServer {
  url: string;
  requests: { headers: IncomingMessage["headers"]; body: unknown }[];
  /** How many connections were opened. */
  connections(): number;
  close(): Promise<void>;
}

/** A server for what no well-behaved one sends: broken bodies, odd errors, silence. */
export async function startRawServer(
  answer: (requestNumber: number, body: unknown) => RawResponse,
): Promise<RawServer> {
  const requests: RawServer["requests"] = [];
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    requests.push({ headers: request.headers, body: JSON.parse(text) });
    const {
      status = 200,
      headers = {},
      body,
      pieces,
      everyMs,
      cutAfter,
      hang,
    } = answer(requests.length, requests.at(-1)?.body);
    if (pieces) {
      response.writeHead(status, { "content-type": "text/event-stream", ...headers });
      for (const piece of pieces) {
        await new Promise((sent) => response.write(piece, sent));
        if (everyMs !== undefined) await delay(everyMs);
      }
      if (!hang && cutAfter === undefined) response.end();
      if (cutAfter !== undefined) response.destroy();
      return;
    }
    if (hang) return;
    const bytes = Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
    const length = cutAfter === undefined ? {} : { "content-length": String(bytes.length) };
    response.writeHead(status, { "content-type": "application/json", ...length, ...headers });
    if (cutAfter === undefined) response.end(bytes);
    else response.write(bytes.subarray(0, cutAfter), () => response.destroy());
  });
  let connections = 0;
  server.on("connection", () => (connections += 1));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/v1`,
    requests,
    connections: () => connections,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** The body of a completion with this message. */
export function completion(message: unknown, finishReason: string | null = "stop", usage?: unknown) {
  return {
    id: "cmpl-1",
    object: "chat.completion",
    model: "m",
    choices: [{ index: 0, message, finish_reason: finishReason }],
    usage,
  };
}

/** A stream of these events, each a piece; an object is encoded as JSON. */
export function events(...list: unknown[]): string[] {
  return list.map((event) => `data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`);
}
