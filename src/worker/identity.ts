import { readFileSync, readlinkSync } from "node:fs";
import os from "node:os";
import type { WorkerIdentity } from "../db/workers.ts";

/** This process, precisely enough for others on the host to prove its death. */
export function ownIdentity(): WorkerIdentity {
  return {
    host: os.hostname(),
    bootId: readProc(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()),
    pidNamespace: readProc(() => readlinkSync("/proc/self/ns/pid")),
    pid: process.pid,
    startTicks: startTicksOf(process.pid),
  };
}

/** Whether a worker is certainly dead, seen from this process: by itself, or with its machine. */
export function isProvenDead(worker: WorkerIdentity, self: WorkerIdentity): boolean {
  const fate = fateOf(worker, self);
  return fate === "dead" || fate === "rebooted";
}

/**
 * What became of a worker, seen from this process. `unknown` on another host, in another pid namespace (containers share
 * the boot id), and on a system without /proc, where another process may have its pid: its lease decides then.
 */
export function fateOf(
  worker: WorkerIdentity,
  self: WorkerIdentity,
): "alive" | "dead" | "rebooted" | "unknown" {
  if (worker.host !== self.host) return "unknown";
  if (worker.bootId === null || self.bootId === null)
    return worker.bootId === self.bootId && !exists(worker.pid) ? "dead" : "unknown";
  // The file is on a local disk, so another boot id means that the machine was started again since.
  if (worker.bootId !== self.bootId) return "rebooted";
  if (worker.pidNamespace !== self.pidNamespace) return "unknown";
  return startTicksOf(worker.pid) === worker.startTicks ? "alive" : "dead";
}

/** When the process was started, in clock ticks since boot: a pid alone may have been given to another. Null if there is none. */
function startTicksOf(pid: number): string | null {
  const stat = readProc(() => readFileSync(`/proc/${pid}/stat`, "utf8"));
  // The command name may hold blanks and parentheses; the fields after the last one are plain. A zombie is dead.
  const fields = stat?.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields === undefined || fields[0] === "Z" ? null : (fields[19] ?? null);
}

function readProc<T>(read: () => T): T | null {
  try {
    return read();
  } catch {
    return null;
  }
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
