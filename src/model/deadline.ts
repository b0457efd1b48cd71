import { ModelError } from "../errors.ts";
import { isLocalUrl } from "./endpoint.ts";
import { placeOf } from "./failure.ts";

/** Bounds of one request, in milliseconds. Each is a setting of its name. */
export interface Timeouts {
  connectTimeoutMs: number;
  /** From the beginning to the first token; a reply in one piece has to begin by then. */
  firstTokenTimeoutMs: number;
  /** Between two pieces of a reply that has begun. */
  silenceTimeoutMs: number;
  /** From the beginning to the last byte. */
  requestTimeoutMs: number;
}

/** What the watch over a request has to be told. */
export interface Deadline {
  /** Aborted when the request has to end. */
  signal: AbortSignal;
  connected(): void;
  /** Something came; `isToken` where it is a piece of the reply itself. */
  heard(isToken: boolean): void;
}

const defaults: Timeouts = {
  connectTimeoutMs: 30_000,
  firstTokenTimeoutMs: 300_000,
  silenceTimeoutMs: 120_000,
  requestTimeoutMs: 1_800_000,
};
/** A server of one's own may have to load the model first, from a slow disk. */
const localFirstTokenTimeoutMs = 900_000;

/** The bounds for a server: those that are set, the defaults for the rest. */
export function timeoutsFor(baseUrl: string, set: Partial<Timeouts> = {}): Timeouts {
  const local = isLocalUrl(baseUrl) ? { firstTokenTimeoutMs: localFirstTokenTimeoutMs } : {};
  return { ...defaults, ...local, ...set };
}

/** Ends `work` at an abort (rejects with its reason) or at one of the bounds (rejects with a ModelError that names it). */
export async function withDeadline<T>(
  request: { signal: AbortSignal; timeouts: Timeouts; baseUrl: string },
  work: (deadline: Deadline) => Promise<T>,
): Promise<T> {
  const { signal, timeouts } = request;
  signal.throwIfAborted();
  const controller = new AbortController();
  const abort = () => controller.abort(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  const place = placeOf(request.baseUrl);
  const start = (name: keyof Timeouts, what: string, mayBeBilled = true) =>
    setTimeout(() => {
      const message = `${what} ${place} within ${timeouts[name]} ms (${name})`;
      controller.abort(new ModelError("retry", message, { mayBeBilled }));
    }, timeouts[name]);
  const timers: Partial<Record<keyof Timeouts, NodeJS.Timeout>> = {
    requestTimeoutMs: start("requestTimeoutMs", "no complete reply from"),
    firstTokenTimeoutMs: start("firstTokenTimeoutMs", "no first token from"),
    connectTimeoutMs: start("connectTimeoutMs", "no connection to", false),
  };
  try {
    return await work({
      signal: controller.signal,
      connected: () => clearTimeout(timers.connectTimeoutMs),
      heard(isToken) {
        if (isToken && timers.silenceTimeoutMs === undefined) {
          clearTimeout(timers.firstTokenTimeoutMs);
          timers.silenceTimeoutMs = start("silenceTimeoutMs", "nothing more of the reply from");
        } else timers.silenceTimeoutMs?.refresh();
      },
    });
  } catch (error) {
    throw controller.signal.aborted ? controller.signal.reason : error;
  } finally {
    for (const timer of Object.values(timers)) clearTimeout(timer);
    signal.removeEventListener("abort", abort);
  }
}
