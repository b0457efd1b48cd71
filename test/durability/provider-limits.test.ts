import { writeFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { type Refuse, startLimitedServer } from "../helpers/limited-server.ts";
import { runPawl, startPawl } from "../helpers/pawl-process.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const runs = 20;
const steps = 10;
const allowedPerSecond = 5;
const outage = { afterServed: 80, ms: 3_000 };
const endTimeoutMs = 240_000;

interface Listed {
  status: string;
  attempt: number;
  steps: number;
}

/** Five requests a second; and once nothing at all for three seconds, of which it says when they are over. */
function limits(): Refuse {
  let outageUntil = Number.NaN;
  return ({ now, served }) => {
    if (Number.isNaN(outageUntil) && served.length >= outage.afterServed) outageUntil = now + outage.ms;
    if (now < outageUntil)
      return { status: 429, headers: { "x-ratelimit-reset-requests": `${Math.ceil(outageUntil - now)}ms` } };
    const lately = served.filter((at) => at > now - 1_000).length;
    return lately < allowedPerSecond ? null : { status: 429, headers: { "retry-after": "1" } };
  };
}

describe("a provider with limits", () => {
  test(
    "20 runs of 10 steps all succeed at the first attempt, with at most 1.3 requests a needed one",
    async () => {
      const server = await startLimitedServer({ steps, refuse: limits() });
      const cwd = temporaryFolder();
      const options = { cwd, env: { PAWL_HOME: path.join(cwd, "home"), ...server.env } };
      const lines = Array.from({ length: runs }, (_, index) =>
        JSON.stringify({ key: `k${index}`, prompt: `Look around ${index}.` }),
      );
      writeFileSync(path.join(cwd, "tasks.jsonl"), lines.join("\n"));
      await runPawl(["enqueue", "--file", "tasks.jsonl"], options);
      const workers = [1, 2].map(() => startPawl(["worker", "--drain", "--concurrency", "8"], options));
      for (const worker of workers) await worker.ended(endTimeoutMs);
      const { stdout } = await runPawl(["list", "--json"], options);
      const listed = stdout
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as Listed);
      const expected = { status: "succeeded", attempt: 1, steps };
      expect(listed).toEqual(Array.from({ length: runs }, () => expect.objectContaining(expected)));
      expect(server.served).toHaveLength(runs * steps);
      expect(server.requests.length / (runs * steps)).toBeLessThanOrEqual(1.3);
    },
    endTimeoutMs + 30_000,
  );
});
