import { existsSync } from "node:fs";
import { statfs } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { ConfigError } from "./errors.ts";

/**
 * File systems that other machines may use at the same time, by the number that statfs gives them on Linux. SQLite's log
 * needs memory that all its users share, which no network gives. FUSE is not here: sshfs has its number, but mergerfs and
 * shared folders of virtual machines too.
 */
const networkFileSystems: Record<number, string> = {
  26985: "NFS",
  20859: "SMB",
  4283649346: "CIFS",
  4266872130: "SMB2",
  22092: "NCP",
  1397113167: "AFS",
  1799439955: "AFS",
  1937076805: "Coda",
  12805120: "Ceph",
  198183888: "Lustre",
  18225520: "GFS2",
  1952539503: "OCFS2",
  428016422: "BeeGFS",
  1196443219: "GPFS",
  2866260714: "PanFS",
};

/** Between virtual machine and host, or the root of a sandbox that does it well (gVisor). */
const plan9 = 0x01021997;

/**
 * The name of a network file system by its type, null for every other one. `release` is the kernel's: where it is WSL's,
 * 9p is a drive of Windows, on which SQLite's log gets damaged.
 */
export function networkFileSystem(type: number, release: string): string | null {
  // Where the system's word has 32 bits the number may come with a sign.
  const number = type >>> 0;
  if (number === plan9 && /microsoft/i.test(release)) return "a drive of Windows";
  return networkFileSystems[number] ?? null;
}

/** Throws ConfigError where the folder, or the nearest one above that there is, is on a network file system. */
export async function requireLocalDisk(folder: string): Promise<void> {
  if (process.platform !== "linux") return;
  const facts = await statfs(nearestFolder(folder)).catch(() => null);
  const name = facts === null ? null : networkFileSystem(facts.type, os.release());
  if (name === null) return;
  throw new ConfigError(
    `expected the data directory on a local disk, got ${folder} on ${name}, where SQLite can lose data: set PAWL_HOME to a folder on a disk of this machine`,
  );
}

/** What is free by default before nothing new is begun: this, and on a small disk this part of it. */
const defaultMinFree = { bytes: 1024 ** 3, share: 1 / 20 };

/** The room on the disk of a folder, in bytes. */
export interface Room {
  /** What this user may still write. */
  freeBytes: number;
  /** Below this nothing new is begun. */
  minFreeBytes: number;
}

/** A folder on a disk without room. */
export interface LowDisk extends Room {
  folder: string;
}

/** The first of these folders with less room than that; null where all have it. */
export async function findLow(folders: string[], minFreeBytes: number | null): Promise<LowDisk | null> {
  for (const folder of folders) {
    const room = await roomAt(folder, minFreeBytes);
    if (room.freeBytes < room.minFreeBytes) return { folder, ...room };
  }
  return null;
}

/** The room at a folder; `minFreeBytes` as configured, null for the default. */
export async function roomAt(folder: string, minFreeBytes: number | null): Promise<Room> {
  const { bavail, blocks, bsize } = await statfs(nearestFolder(folder)).catch((error: unknown) => {
    // Gone since the look.
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return statfs(nearestFolder(folder));
    throw error;
  });
  const byDefault = Math.min(defaultMinFree.bytes, Math.floor(blocks * bsize * defaultMinFree.share));
  return { freeBytes: bavail * bsize, minFreeBytes: minFreeBytes ?? byDefault };
}

/** The folder, or the nearest one above that there is. */
export function nearestFolder(folder: string): string {
  let found = path.resolve(folder);
  while (!existsSync(found) && found !== path.dirname(found)) found = path.dirname(found);
  return found;
}

/** A number of bytes as people say it: 900 B, 1.5 MB, 3.2 GB, by powers of 1024. */
export function byteSize(bytes: number): string {
  const units = ["B", "KB", "MB", "GB"];
  let rest = bytes;
  let unit = 0;
  for (; rest >= 1024 && unit < units.length - 1; unit += 1) rest /= 1024;
  return `${unit === 0 ? rest : rest.toFixed(1)} ${units[unit]}`;
}
