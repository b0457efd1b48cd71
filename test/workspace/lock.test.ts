import path from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
import { withLock } from "../../src/workspace/lock.ts";
import { useFixture } from "./fixture.ts";

const fixture = useFixture();

test("one holder at a time, in turn, and a failure frees the lock", async () => {
  const file = path.join(fixture.root, "locks/x.lock");
  let inside = 0;
  let most = 0;
  const work = async () => {
    most = Math.max(most, ++inside);
    await new Promise((resolve) => setImmediate(resolve));
    inside--;
  };
  const failing = withLock({ file }, async () => {
    throw new Error("broken");
  });
  await Promise.all([
    expect(failing).rejects.toThrow("broken"),
    ...[1, 2, 3, 4].map(() => withLock({ file }, work)),
  ]);
  expect(most).toBe(1);
});

test("the lock of a living process is waited for, and that of a killed one is free", async () => {
  const file = path.join(fixture.root, "x.lock");
  const script = `const Database = require("better-sqlite3"); const lock = new Database(process.argv[1]);
    lock.exec("BEGIN EXCLUSIVE"); console.log("held"); setInterval(() => {}, 1000);`;
  const projectRoot = path.resolve(import.meta.dirname, "../..");
  const holder = execa("node", ["-e", script, file], { cwd: projectRoot, reject: false });
  try {
    await new Promise((resolve) => holder.stdout.once("data", resolve));
    const controller = new AbortController();
    const reason = new Error("enough");
    const waiting = withLock({ file, signal: controller.signal }, async () => "entered");
    let isKilled = false;
    const entered = withLock({ file }, async () => isKilled);
    controller.abort(reason);
    await expect(waiting).rejects.toBe(reason);
    isKilled = true;
    holder.kill("SIGKILL");
    expect(await entered, "it waited until the holder was killed").toBe(true);
  } finally {
    holder.kill("SIGKILL");
    await holder;
  }
});

test("a holder that is stopped is passed by where that can be done, and a busy one is waited for", async () => {
  const file = path.join(fixture.root, "x.lock");
  const module = path.resolve(import.meta.dirname, "../../dist/workspace/lock.js");
  const script = `import { withLock } from ${JSON.stringify(module)};
    await withLock({ file: ${JSON.stringify(file)} }, async () => { console.log("held"); await new Promise((resolve) => setTimeout(resolve, 60_000)); });`;
  const holder = execa("node", ["--input-type=module", "-e", script], { reject: false });
  try {
    await new Promise((resolve) => holder.stdout.once("data", resolve));
    const told: string[] = [];
    let isStopped = false;
    const passed = withLock(
      {
        file,
        notice: (event) => {
          told.push(event);
          // It was waited for while it showed signs of life.
          if (event === "lock.waiting") isStopped = holder.kill("SIGSTOP");
        },
        whenSilent: async () => isStopped,
      },
      async () => false,
    );
    expect(await passed).toBe(true);
    expect(told).toEqual(["lock.waiting", "lock.silent"]);
  } finally {
    holder.kill("SIGKILL");
    await holder;
  }
});
