import path from "node:path";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { openStore } from "../src/db/store.ts";
import { networkFileSystem, roomAt } from "../src/disk.ts";
import { ConfigError } from "../src/errors.ts";
import { temporaryFolder } from "./helpers/temporary-folder.ts";

/** What statfs says of every file system beside the truth. */
let said: { type?: number; blocks?: number; bsize?: number; bavail?: number } = {};

vi.mock("node:fs/promises", async (load) => {
  const real = await load<typeof import("node:fs/promises")>();
  const statfs = async (folder: string) => ({ ...(await real.statfs(folder)), ...said });
  return { ...real, statfs };
});

beforeEach(() => {
  said = {};
});

describe("the kind of a file system", () => {
  test.each([
    [0x6969, "NFS"],
    [0xff534d42, "CIFS"],
    [0xff534d42 | 0, "CIFS"],
    [0xfe534d42, "SMB2"],
    [0x5346414f, "AFS"],
    [0xc36400, "Ceph"],
    [0x0bd00bd0, "Lustre"],
    [0x01161970, "GFS2"],
  ])("%i is the network's %s", (number, name) => {
    expect(networkFileSystem(number, "6.8.0-generic")).toBe(name);
  });

  test.each([
    ["ext4", 0xef53],
    ["xfs", 0x58465342],
    ["btrfs", 0x9123683e],
    ["tmpfs", 0x01021994],
    ["overlay", 0x794c7630],
    ["zfs", 0x2fc12fc1],
    ["9p", 0x01021997],
    ["FUSE", 0x65735546],
  ])("%s is none", (_name, number) => {
    expect(networkFileSystem(number, "6.8.0-generic")).toBeNull();
  });

  test("9p is refused where it is a drive of Windows", () => {
    expect(networkFileSystem(0x01021997, "5.15.153.1-microsoft-standard-WSL2")).toBe("a drive of Windows");
    expect(networkFileSystem(0xef53, "5.15.153.1-microsoft-standard-WSL2")).toBeNull();
  });
});

test("a database on a network file system is not opened, and the folder is not made", async () => {
  said = { type: 0x6969 };
  const folder = path.join(temporaryFolder(), "data");
  const refused = openStore({ file: path.join(folder, "pawl.db") });
  await expect(refused).rejects.toBeInstanceOf(ConfigError);
  await expect(refused).rejects.toThrow(
    `expected the data directory on a local disk, got ${folder} on NFS, where SQLite can lose data: set PAWL_HOME`,
  );
  said = {};
  await (await openStore({ file: path.join(folder, "pawl.db") })).close();
});

test("the room of a folder that is not made yet is that of its parent", async () => {
  const folder = temporaryFolder();
  const missing = path.join(folder, "a", "b");
  expect(await roomAt(missing, 7)).toEqual({ freeBytes: expect.any(Number), minFreeBytes: 7 });
});

test("a small disk is full later than a large one, unless the settings say otherwise", async () => {
  const folder = temporaryFolder();
  const gigabyte = 1024 ** 3;
  said = { bavail: 1, blocks: 10_000, bsize: gigabyte };
  expect(await roomAt(folder, null)).toEqual({ freeBytes: gigabyte, minFreeBytes: gigabyte });
  said = { ...said, blocks: 5 };
  expect(await roomAt(folder, null)).toEqual({ freeBytes: gigabyte, minFreeBytes: gigabyte / 4 });
  expect(await roomAt(folder, 7)).toEqual({ freeBytes: gigabyte, minFreeBytes: 7 });
});
