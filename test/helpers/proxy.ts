import { once } from "node:events";
import { createServer, connect as open, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/** An address that outlives the server behind it, as that of a service with failover does. */
export interface TcpProxy {
  url: string;
  /** New connections go to this port of 127.0.0.1; those that are open stay where they are. */
  lead(port: number): void;
}

/** Closed, with its connections, when the test ends. */
export async function startProxy(port: number): Promise<TcpProxy> {
  let target = port;
  const sockets = new Set<Socket>();
  const server = createServer((from) => {
    const to = open(target, "127.0.0.1");
    for (const [one, other] of [
      [from, to],
      [to, from],
    ] as const) {
      sockets.add(one);
      one.pipe(other);
      one.on("error", () => {});
      one.on("close", () => {
        sockets.delete(one);
        other.destroy();
      });
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("expected a TCP address");
  return {
    url: `redis://127.0.0.1:${address.port}`,
    lead(next) {
      target = next;
    },
  };
}
