import { expect, test } from "vitest";
import { RunAborted } from "../src/abort.ts";
import { isDiskFull, untilRoom } from "../src/full-disk.ts";

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

test.each(["shutdown", "lease_lost"] as const)("at %s nobody waits: the next owner does", async (kind) => {
  const controller = new AbortController();
  controller.abort(new RunAborted(kind));
  await expect(workAfter(1, controller.signal).done).rejects.toMatchObject({ kind });
});

test.each(["cancel", "time_limit"] as const)("a run that ends by %s waits for its products", async (kind) => {
  const controller = new AbortController();
  controller.abort(new RunAborted(kind));
  expect(await workAfter(1, controller.signal).done).toBe("done");
});

test.each([
  ["ENOSPC: no space left on device, write", true],
  ["database or disk is full", true],
  ["unable to write loose object file: No space left on device", true],
  ["EDQUOT: disk quota exceeded, write", true],
  ["remote: fatal: unable to write: No space left on device", false],
  ["ENOENT: no such file or directory", false],
])("a full disk of this machine is known from %j: %s", (message, expected) => {
  expect(isDiskFull(new Error(message))).toBe(expected);
});
