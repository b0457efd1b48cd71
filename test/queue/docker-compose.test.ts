import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import { describeWithRedis, startRedis } from "../helpers/redis.ts";

const composeFile = z.object({
  services: z.object({ redis: z.object({ command: z.array(z.string()), ports: z.array(z.string()) }) }),
});
const { redis: service } = composeFile.parse(
  parse(readFileSync(path.join(import.meta.dirname, "../../docker-compose.yml"), "utf8")),
).services;

test("docker-compose.yml lets only this machine reach Redis, at the port of the README", () => {
  expect(service.ports).toEqual(["127.0.0.1:6379:6379"]);
});

describeWithRedis("docker-compose.yml", () => {
  test("its command line is one redis-server takes: nothing is evicted, everything is written to disk", async () => {
    const [command, ...args] = service.command;
    expect(command).toBe("redis-server");
    const redis = await startRedis({ args });
    try {
      expect(await redis.command("CONFIG", "GET", "maxmemory-policy")).toEqual([
        "maxmemory-policy",
        "noeviction",
      ]);
      expect(args.join(" ")).toContain("--appendonly yes");
    } finally {
      await redis.stop();
    }
  });
});
