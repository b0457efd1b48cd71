import { readdir, readFile } from "node:fs/promises";
import { totalmem } from "node:os";

/** What one command, with all that it starts, may take of the machine. */
export interface Limits {
  /** Processes and threads at one time. Where control groups cannot be made it counts on top of what the user runs already. */
  processes: number;
  memoryBytes: number;
  /** Size of a single file. */
  fileBytes: number;
  /** Processors that it may use; null is all. */
  cpus: number | null;
}

/** A share of the machine's memory: more would have the kernel end whatever it likes, the worker included. */
const memoryShare = 0.75;

export const defaultLimits: Limits = {
  processes: 1_000,
  memoryBytes: Math.floor(totalmem() * memoryShare),
  fileBytes: 10 * 1024 ** 3,
  cpus: null,
};

/**
 * What the supervisor reads, in sh: which groups there are, what it has to watch itself, and how the command's own process
 * takes its limits on before it becomes the command.
 */
export async function limitScript(limits: Limits, groups: string[]): Promise<string> {
  const { memoryBytes, fileBytes, cpus } = limits;
  const resources = [`--fsize=${fileBytes}`];
  // For root it has no effect, so then there is nothing to count.
  if (groups.length === 0 && process.getuid?.() !== 0)
    resources.push(`--nproc=${limits.processes + (await countThreads())}`);
  return [
    `groups='${groups.join(" ")}'`,
    `memory_bytes=${memoryBytes}`,
    `watched_bytes=${groups.length === 0 ? memoryBytes : ""}`,
    "limit_command() {",
    `  for group in $groups; do echo $$ >"$group/cgroup.procs"; done`,
    `  command -v prlimit >/dev/null && prlimit --pid $$ ${resources.join(" ")}`,
    ...(cpus === null ? [] : [`  taskset -cp ${await firstProcessors(cpus)} $$ >/dev/null`]),
    "}",
    "",
  ].join("\n");
}

/** The groups that the supervisor of a command was told of. */
export async function readGroups(base: string): Promise<string[]> {
  const text = await readFile(`${base}.limits`, "utf8").catch(() => "");
  return (/^groups='(.*)'$/m.exec(text)?.[1] ?? "").split(" ").filter(Boolean);
}

/** Of those that this process may use itself: a container may have been given some in the middle. */
async function firstProcessors(count: number): Promise<string> {
  const status = await readFile("/proc/self/status", "utf8");
  const ranges = /^Cpus_allowed_list:\s+(.*)$/m.exec(status)?.[1]?.split(",") ?? [];
  const processors = ranges.flatMap((range) => {
    const [first = 0, last = first] = range.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, index) => first + index);
  });
  return processors.slice(0, count).join(",");
}

async function countThreads(): Promise<number> {
  const uid = process.getuid?.();
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const statuses = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/status`, "utf8").catch(() => "")),
  );
  return statuses
    .filter((status) => Number(/^Uid:\s+(\d+)/m.exec(status)?.[1]) === uid)
    .reduce((sum, status) => sum + Number(/^Threads:\s+(\d+)/m.exec(status)?.[1] ?? 0), 0);
}
