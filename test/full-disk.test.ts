import { readdirSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import Database from "better-sqlite3";
import { describe, expect, test } from "vitest";
import { RunAborted } from "../src/abort.ts";
import { isDiskFull, untilRoom } from "../src/full-disk.ts";
import { canMount, mountSmallDisk } from "./helpers/small-disk.ts";
import { temporaryFolder } from "./helpers/temporary-folder.ts";

const full = () => Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" });

/** Work that meets a full disk so many times. */
function workAfter(failures: number, signal = new AbortController().signal) {
  let left = failures;
  const said: unknown[] = [];
  const work = async () => {
    left -= 1;
    if (left >= 0) throw full();
    return "done";
  };
  return { said, done: untilRoom(work, { signal, onFull: (error) => said.push(error) }) };
}

test("work that meets a full disk is done again until there is room, and that is said once", async () => {
  const { done, said } = workAfter(2);
  expect(await done).toBe("done");
  expect(said).toEqual([full()]);
});

test("other failures are thrown on", async () => {
  const work = () => Promise.reject(new Error("no such file"));
  await expect(untilRoom(work, { signal: new AbortController().signal })).rejects.toThrow("no such file");
});

test("once its signal is aborted the work is not tried again, and what the abort says is thrown", async () => {
  const controller = new AbortController();
  const tries: number[] = [];
  const work = () => Promise.reject(tries.push(1) && full());
  const onFull = () => controller.abort(new RunAborted("lease_lost"));
  const done = untilRoom(work, { signal: controller.signal, onFull });
  await expect(done).rejects.toMatchObject({ kind: "lease_lost" });
  expect(tries).toHaveLength(1);
});

test.each([
  ["ENOSPC: no space left on device, write", true],
  ["database or disk is full", true],
  ["unable to write loose object file: No space left on device", true],
  ["EDQUOT: disk quota exceeded, write", true],
  [`Unknown system error -${os.constants.errno.EDQUOT}: write`, true],
  ["Unknown system error -1220: write", false],
  ["remote: fatal: unable to write: No space left on device", false],
  ["ENOENT: no such file or directory", false],
])("a full disk of this machine is known from %j: %s", (message, expected) => {
  expect(isDiskFull(new Error(message))).toBe(expected);
});

test("a quota that is used up is known by its number", () => {
  const error = new Error("UNKNOWN: unknown error, write");
  expect(isDiskFull(Object.assign(error, { errno: -os.constants.errno.EDQUOT }))).toBe(true);
  expect(isDiskFull(Object.assign(error, { errno: -os.constants.errno.EIO }))).toBe(false);
});

// SQLite gives these codes for a quota that is used up, for shared memory without room, and for a disk that fails.
describe.each(["SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE"])("%s of SQLite", (code) => {
  const error = new Database.SqliteError("disk I/O error", code);

  test("is no full disk where the folder can be written to", () => {
    const folder = temporaryFolder();
    expect(isDiskFull(error, folder)).toBe(false);
    expect(readdirSync(folder)).toEqual([]);
  });

  test.skipIf(!canMount())("is a full disk where it cannot (needs to mount one)", () => {
    const folder = path.join(temporaryFolder(), "small");
    const disk = mountSmallDisk(folder);
    disk.fill();
    expect(isDiskFull(error, folder)).toBe(true);
    disk.free();
    expect(isDiskFull(error, folder)).toBe(false);
  });
});
