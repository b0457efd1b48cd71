import http, { type IncomingMessage } from "node:http";
import https from "node:https";

interface Post {
  url: string;
  headers: Headers;
  body: string;
  signal: AbortSignal;
  /** Called once the connection stands, before anything is sent. */
  onConnect(): void;
}

/** Sends a request and resolves with the response as soon as its headers are there. Redirects are not followed. */
export type Transport = (post: Post) => Promise<IncomingMessage>;

/**
 * Node's own client instead of `fetch`, whose limits of five minutes for the headers and between two pieces of a body
 * cannot be set: a model that is loaded from disk may need longer. Connections are kept for the next request.
 */
export function createTransport(): Transport {
  const plain = new http.Agent({ keepAlive: true });
  const secure = new https.Agent({ keepAlive: true });
  return ({ url, headers, body, signal, onConnect }) =>
    new Promise((resolve, reject) => {
      const isSecure = new URL(url).protocol === "https:";
      const options = {
        method: "POST",
        headers: { ...Object.fromEntries(headers), "accept-encoding": "identity" },
        signal,
        agent: isSecure ? secure : plain,
      };
      const request = (isSecure ? https : http).request(url, options);
      request.on("socket", (socket) => {
        if (socket.connecting) socket.once(isSecure ? "secureConnect" : "connect", onConnect);
        else onConnect();
      });
      request.on("response", resolve);
      request.on("error", reject);
      request.end(body);
    });
}
