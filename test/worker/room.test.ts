import { expect, test } from "vitest";
import { RunAborted } from "../../src/abort.ts";
import { silentLogger } from "../../src/log.ts";
import { withRoom } from "../../src/worker/room.ts";

test.each(["shutdown", "lease_lost"] as const)(
  "a run that is cancelled waits for room until %s",
  async (kind) => {
    const [controller, leaving] = [new AbortController(), new AbortController()];
    controller.abort(new RunAborted("cancel"));
    const events: string[] = [];
    const logger = { ...silentLogger, info: (event: string) => void events.push(event) };
    let tries = 0;
    const work = async () => {
      tries += 1;
      // The worker goes while the second wait lasts: what the disk says next must not matter any more.
      if (tries === 2) setImmediate(() => leaving.abort(new RunAborted(kind)));
      throw new Error("ENOSPC: no space left on device, write");
    };
    const run = { resources: { logger }, row: { id: "r1" }, controller, leaving: leaving.signal };
    await expect(withRoom(run, work)).rejects.toMatchObject({ kind });
    expect({ tries, events }).toEqual({ tries: 2, events: ["disk.full"] });
  },
);
