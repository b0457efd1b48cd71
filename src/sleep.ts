import { setTimeout as delay } from "node:timers/promises";

/** Waits; an abort rejects at once with the signal's own reason. */
export async function sleep(delayMs: number, signal: AbortSignal): Promise<void> {
  try {
    await delay(delayMs, undefined, { signal });
  } catch {
    throw signal.reason;
  }
}
