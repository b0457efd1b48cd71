import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { completion } from "./raw-server.ts";

/** What a server of one's own answers: a body with status 200, a status with a body, or nothing for ever. */
type Answer = { status?: number; body: unknown } | "hang";

/** By method and path, such as `POST /api/show`; what is not named is a 404, as real ones answer. */
type Routes = Record<string, (body: Record<string, unknown>) => Answer | Promise<Answer>>;

export interface LocalServer {
  /** Without a path. */
  url: string;
  /** Method and path of all requests, in order. */
  asked: string[];
  /** Bodies of the requests for a completion. */
  chats: Record<string, unknown>[];
}

/** A server as people run it for themselves; it is closed when the test ends. */
export async function startLocalServer(routes: Routes): Promise<LocalServer> {
  const asked: string[] = [];
  const chats: Record<string, unknown>[] = [];
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    const path = `${request.method} ${request.url}`;
    const body = JSON.parse(text || "{}") as Record<string, unknown>;
    asked.push(path);
    if (path.endsWith("/chat/completions")) chats.push(body);
    const answer = (await routes[path]?.(body)) ?? { status: 404, body: "404 page not found" };
    if (answer === "hang") return;
    response.writeHead(answer.status ?? 200, { "content-type": "application/json" });
    response.end(JSON.stringify(answer.body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked, chats };
}

/** A completion with this text. */
export const said = (content: string): Answer => ({ body: completion({ role: "assistant", content }) });

/** How a server says that it takes no tools. */
export const refused = (message: string, status = 400): Answer => ({ status, body: { error: { message } } });
