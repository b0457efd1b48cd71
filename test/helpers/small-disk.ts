import { execFileSync } from "node:child_process";
import { closeSync, mkdirSync, mkdtempSync, openSync, rmdirSync, rmSync, writeSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";

const diskBytes = 24 * 1024 * 1024;
const fillerBytes = [1024 * 1024, 4096];

/** A disk that can be filled to the last byte and emptied again. */
export interface SmallDisk {
  fill(): void;
  free(): void;
}

/** Mounts a small disk at a folder that is made for it, until the test ends. */
export function mountSmallDisk(folder: string): SmallDisk {
  mkdirSync(folder);
  mount(folder);
  // Lazily: a connection of the test may still be open.
  onTestFinished(() => unmount(folder));
  const filler = path.join(folder, "filler");
  return { fill: () => fill(filler), free: () => rmSync(filler) };
}

/** Only root may mount, and not in every container. */
export function canMount(): boolean {
  const folder = mkdtempSync(path.join(os.tmpdir(), "pawl-test-"));
  try {
    mount(folder);
    unmount(folder);
    return true;
  } catch {
    return false;
  } finally {
    rmdirSync(folder);
  }
}

function mount(folder: string): void {
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${diskBytes}`, "none", folder], { stdio: "pipe" });
}

function unmount(folder: string): void {
  execFileSync("umount", ["--lazy", folder]);
}

/** Writes until nothing more goes in. */
function fill(filler: string): void {
  const file = openSync(filler, "a");
  for (const size of fillerBytes) {
    const block = Buffer.alloc(size);
    try {
      for (let written = 0; written < diskBytes; written += writeSync(file, block));
    } catch (error) {
      expect(error).toMatchObject({ code: "ENOSPC" });
    }
  }
  closeSync(file);
}
