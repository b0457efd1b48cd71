import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { access, constants, mkdir, readdir, readFile, rmdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Limits } from "./limits.ts";

const groupsFolder = "/sys/fs/cgroup";
const controllers = ["memory", "pids"];
/** A group whose last process has just ended is busy for a moment. */
const removeTries = 20;
const removePauseMs = 25;

/**
 * Makes the control groups of a command, removed by its supervisor at the end. Empty where this process may make none: only
 * root can, and not in every container.
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

/** Those that hold nothing any more; one that does is left. */
export async function removeGroups(groups: string[]): Promise<void> {
  for (const group of groups) {
    for (let tries = 0; tries < removeTries && !(await isRemoved(group)); tries += 1)
      await sleep(removePauseMs);
  }
}

async function isRemoved(group: string): Promise<boolean> {
  await rmdir(group).catch(() => {});
  return !existsSync(group);
}

/** The processes in these groups, wherever they went. */
export async function membersOf(groups: string[]): Promise<number[]> {
  const lists = groups.map((group) => readFile(path.join(group, "cgroup.procs"), "utf8").catch(() => ""));
  const pids = (await Promise.all(lists)).flatMap((list) => list.split("\n").filter(Boolean).map(Number));
  return [...new Set(pids)];
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
