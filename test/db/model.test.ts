import { mkdtempSync } from "node:fs";
import path from "node:path";
import type Database from "better-sqlite3";
import fc from "fast-check";
import { expect, test } from "vitest";
import { openStore } from "../../src/db/store.ts";
import { expectSoundLogs } from "../helpers/invariants.ts";
import { memoryFolder } from "../helpers/memory-folder.ts";
import { anyCommand, type Command, claim, obey, raise, removeWorker, steer } from "./model/commands.ts";
import { tryFenced } from "./model/fenced.ts";
import { closeWorld, createWorld, expectAgreement, isTerminal, type World } from "./model/world.ts";

// The store against a model of it in memory: whatever several workers and people do, in whatever order, with a clock that
// jumps, the store must answer and hold what the model says.

const seed = Number(process.env.PAWL_MODEL_SEED ?? Date.now() % 1_000_000);
const limitMs = 12_000;
const sequence = { minLength: 60, maxLength: 160, size: "max" as const };

test(`the store does what its model says, whatever its users do (seed ${seed})`, async () => {
  const root = memoryFolder();
  const template = path.join(root, "template.db");
  await (await openStore({ file: template })).close();
  const seen: World["seen"] = {
    refused: 0,
    unaffordable: 0,
    done: 0,
    claimed: 0,
    ended: 0,
    crash_loop: 0,
    lost: 0,
  };
  const property = fc.asyncProperty(fc.array(anyCommand, sequence), async (commands) => {
    const world = await createWorld(mkdtempSync(path.join(root, "world-")), template);
    try {
      await play(world, commands);
    } finally {
      await closeWorld(world);
    }
    for (const name of Object.keys(seen) as (keyof typeof seen)[]) seen[name] += world.seen[name];
  });
  await fc.assert(property, { seed, numRuns: 1000, interruptAfterTimeLimit: limitMs });
  // What was never tried proves nothing.
  const { crash_loop: _, ...often } = seen;
  for (const [name, count] of Object.entries(often)) expect(count, name).toBeGreaterThan(2);
});

async function play(world: World, commands: Command[]): Promise<void> {
  for (const command of commands) {
    await obey(world, command);
    await expectAgreement(world);
  }
  await bringToEnd(world);
  expectSoundLogs(world.disk as Database.Database);
}

/** All workers die and people wake what waits: then one worker must be able to take every run to its end. */
async function bringToEnd(world: World): Promise<void> {
  for (const id of [...world.workers.keys()]) await removeWorker(world, id);
  await raise(world, world.budget.used + 1e6);
  for (const run of world.runs.values()) if (run.status === "waiting") await steer(world, run, "resume");
  await obey(world, { does: "addWorker", at: 0 });
  const workerId = [...world.workers.keys()].at(-1) ?? "";
  while (await claim(world, workerId, 0)) {
    const latest = world.claims.at(-1);
    if (latest) await tryFenced(world, "finish", latest, 0);
  }
  await expectAgreement(world);
  const left = [...world.runs.values()].filter((run) => !isTerminal(run));
  expect(left, "every run comes to its end").toEqual([]);
  world.seen.ended += world.runs.size;
}
