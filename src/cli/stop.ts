import { setTimeout as sleep } from "node:timers/promises";
import type { Store } from "../db/store.ts";
import { counted } from "../report/text.ts";
import { fateOf, isProvenDead, ownIdentity } from "../worker/identity.ts";
import { openLook } from "./look.ts";
import { note, print, printJson } from "./output.ts";

/** A worker's steps get eight seconds; what takes longer than this is not going to stop by itself. */
const waitMs = 20_000;
const pollMs = 100;

interface Stopped {
  id: string;
  host: string;
  pid: number;
  stopped: boolean;
}

/** `pawl stop`: asks every worker to stop, as SIGTERM would, and waits for them; exit 1 if one did not. */
export async function stop(options: { json?: boolean }): Promise<void> {
  const { store } = await openLook();
  try {
    const workers = store ? await stopAll(store, options) : [];
    const ok = workers.every((worker) => worker.stopped);
    if (options.json) printJson({ ok, workers });
    else if (workers.length === 0) note("no worker is alive");
    if (!ok) process.exitCode = 1;
  } finally {
    await store?.close();
  }
}

/** All are asked before one is waited for; also those that lost their lease, as long as their process is there. */
async function stopAll(store: Store, options: { json?: boolean }): Promise<Stopped[]> {
  const self = ownIdentity();
  const workers = (await store.countOwned()).filter((worker) => {
    const fate = fateOf(worker, self);
    return fate === "alive" || (fate === "unknown" && worker.leaseUntil > store.now());
  });
  for (const { id } of workers) await store.askToStop(id);
  const deadlineAt = Date.now() + waitMs;
  return Promise.all(
    workers.map(async ({ id, host, pid, running }) => {
      if (!options.json && running > 0)
        note(`worker ${id} has ${counted(running, "run")}: current steps get a few seconds`);
      const stopped = await hasStopped(store, id, deadlineAt);
      const words = stopped ? "stopped" : `did not stop within ${waitMs / 1000} seconds; kill ${pid} ends it`;
      if (!options.json) print(`worker ${id} on ${host}, pid ${pid}: ${words}`);
      return { id, host, pid, stopped };
    }),
  );
}

/** A worker that others removed may be alive: it notices, and that it was asked. */
async function hasStopped(store: Store, id: string, deadlineAt: number): Promise<boolean> {
  const self = ownIdentity();
  for (;;) {
    const worker = await store.getWorker(id);
    const isOver = worker === undefined || (worker.stoppedAt !== null && worker.detail === "stopped");
    if (isOver || isProvenDead(worker, self)) return true;
    if (Date.now() > deadlineAt) return false;
    await sleep(pollMs);
  }
}
