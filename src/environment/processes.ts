import { readdir, readFile } from "node:fs/promises";

/** A process by pid and start time, so that a reused pid is not mistaken for it. */
export interface ProcessIdentity {
  pid: number;
  /** Clock ticks since boot, as /proc says. */
  startTicks: string;
}

interface ProcessStatus extends ProcessIdentity {
  state: string;
  group: number;
}

export async function isAlive(identity: ProcessIdentity): Promise<boolean> {
  const status = await getStatus(identity.pid);
  return status !== undefined && status.startTicks === identity.startTicks && !isDead(status);
}

/**
 * The living processes of a command: those in the group that `leader` leads, those whose environment holds `tag`
 * (as `NAME=value`), wherever they went, and `others`, by pid.
 */
export async function findMembers(
  leader: ProcessIdentity | undefined,
  tag: string,
  others: number[],
): Promise<ProcessIdentity[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
  const statuses = await Promise.all(pids.map(getStatus));
  const leaderNow = statuses.find((status) => status !== undefined && status.pid === leader?.pid);
  const isReused = leaderNow !== undefined && leaderNow.startTicks !== leader?.startTicks;
  const members = await Promise.all(
    statuses.map(async (status) => {
      if (status === undefined || isDead(status)) return [];
      const isInGroup = !isReused && status.group === leader?.pid;
      const isKnown = isInGroup || others.includes(status.pid);
      return isKnown || (await hasTag(status.pid, tag)) ? [status] : [];
    }),
  );
  return members.flat();
}

/** Sends a signal; a process that is gone already is no error. A negative pid names a group. */
export function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // Gone between look and signal, or changed its user: the caller looks again.
  }
}

async function getStatus(pid: number): Promise<ProcessStatus | undefined> {
  try {
    const text = await readFile(`/proc/${pid}/stat`, "utf8");
    // The command name may hold spaces and brackets; what follows the last bracket does not.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    const [state = "", , group = ""] = fields;
    return { pid, state, group: Number(group), startTicks: fields[19] ?? "" };
  } catch {
    return undefined;
  }
}

function isDead(status: ProcessStatus): boolean {
  return status.state === "Z" || status.state === "X";
}

async function hasTag(pid: number, tag: string): Promise<boolean> {
  try {
    return (await readFile(`/proc/${pid}/environ`, "utf8")).split("\0").includes(tag);
  } catch {
    return false;
  }
}
