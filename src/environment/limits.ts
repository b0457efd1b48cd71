import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { access, constants, mkdir, readdir, readFile, rmdir, writeFile } from "node:fs/promises";
import { totalmem } from "node:os";
import path from "node:path";

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

const groupsFolder = "/sys/fs/cgroup";
const controllers = ["memory", "pids"];
/** A group whose last process has just ended is busy for a moment. */
const removeTries = 20;
const removePauseMs = 25;

/**
 * Makes the control groups of a command, removed by its supervisor at the end. Empty where this process may make none,
 * as any user but root.
 */
export async function createGroups(base: string, limits: Limits): Promise<string[]> {
  const name = `pawl-${createHash("sha256").update(base).digest("hex").slice(0, 16)}`;
  const groups: string[] = [];
  parents ??= findParents();
  for (const parent of await parents) {
    const group = path.join(parent, name);
    try {
      await mkdir(group, { recursive: true });
      groups.push(group);
      await setLimits(group, limits);
    } catch {
      // A group without its limit would only pretend; the command runs with what else limits it.
      await removeGroups(groups);
      return [];
    }
  }
  return groups;
}

/** The groups that the supervisor of a command was told of. */
export async function readGroups(base: string): Promise<string[]> {
  const text = await readFile(`${base}.limits`, "utf8").catch(() => "");
  return (/^groups='(.*)'$/m.exec(text)?.[1] ?? "").split(" ").filter(Boolean);
}

/** Those that hold nothing any more; one that does is left. */
export async function removeGroups(groups: string[]): Promise<void> {
  for (const group of groups) {
    for (let tries = 0; tries < removeTries; tries += 1) {
      if (
        await rmdir(group).then(
          () => true,
          (error) => error.code === "ENOENT",
        )
      )
        break;
      await new Promise((resolve) => setTimeout(resolve, removePauseMs));
    }
  }
}

/** The processes in these groups, wherever they went. */
export async function membersOf(groups: string[]): Promise<number[]> {
  const lists = groups.map((group) => readFile(path.join(group, "cgroup.procs"), "utf8").catch(() => ""));
  return [
    ...new Set((await Promise.all(lists)).flatMap((list) => list.split("\n").filter(Boolean).map(Number))),
  ];
}

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
    ...(cpus === null ? [] : [`  taskset -cp 0-${cpus - 1} $$ >/dev/null`]),
    "}",
    "",
  ].join("\n");
}

let parents: Promise<string[]> | undefined;

/** Where groups can be made: one folder in version 2, one for each controller in version 1. */
async function findParents(): Promise<string[]> {
  if (existsSync(path.join(groupsFolder, "cgroup.controllers"))) return makeUnifiedParent();
  const own = await readFile("/proc/self/cgroup", "utf8").catch(() => "");
  const folders = controllers.map((controller) =>
    path.join(groupsFolder, controller, pathOf(own, controller)),
  );
  return (await Promise.all(folders.map(canMakeGroup))).every(Boolean) ? folders : [];
}

/**
 * At the top, as container engines do: below a service's own group, commands that outlive the worker would keep systemd
 * from starting the service again.
 */
async function makeUnifiedParent(): Promise<string[]> {
  const parent = path.join(groupsFolder, "pawl");
  const wanted = controllers.map((controller) => `+${controller}`).join(" ");
  try {
    await mkdir(parent, { recursive: true });
    for (const folder of [groupsFolder, parent])
      await writeFile(path.join(folder, "cgroup.subtree_control"), wanted);
    return [parent];
  } catch {
    return [];
  }
}

function pathOf(own: string, controller: string): string {
  const line = own.split("\n").find((each) => each.split(":")[1]?.split(",").includes(controller));
  return line?.split(":").slice(2).join(":") ?? "/";
}

async function canMakeGroup(folder: string): Promise<boolean> {
  return access(folder, constants.W_OK).then(
    () => true,
    () => false,
  );
}

async function setLimits(group: string, limits: Limits): Promise<void> {
  const names = new Set(await readdir(group));
  const set = async (name: string, value: string) => {
    if (names.has(name)) await writeFile(path.join(group, name), value);
  };
  await set("pids.max", String(limits.processes));
  await set("memory.max", String(limits.memoryBytes));
  await set("memory.swap.max", "0");
  await set("memory.limit_in_bytes", String(limits.memoryBytes));
  await set("memory.memsw.limit_in_bytes", String(limits.memoryBytes));
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
