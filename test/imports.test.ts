import path from "node:path";
import { describe, expect, test } from "vitest";
import { findCycle, folderOf, readImports, type SourceImport } from "./helpers/imports.ts";
import { temporaryFolder } from "./helpers/temporary-folder.ts";

// The direction of imports, as ARCHITECTURE.md states it: producer → queue → worker → agent → model, tools.

const imports = readImports(path.join(import.meta.dirname, "..", "src"));

/** Imports that a rule forbids, as `file → what it imports`. */
function breaches(isForbidden: (each: SourceImport) => boolean): string[] {
  return imports.filter(isForbidden).map(({ from, to }) => `${from} → ${to}`);
}

/** Which files may load a package. What is not named here may be loaded anywhere. */
const packageOwners: Record<string, RegExp> = {
  // The lock borrows SQLite's own: the kernel frees it when its owner dies.
  "better-sqlite3": /^db\/|^workspace\/lock\.ts$/,
  "drizzle-orm": /^db\//,
  openai: /^model\/openai\.ts$/,
  bullmq: /^queue\//,
  ioredis: /^queue\//,
  commander: /^cli\//,
  ajv: /^tools\//,
  jiti: /^modules\.ts$/,
  dotenv: /^config\//,
  yaml: /^config\//,
  "fastest-levenshtein": /^config\//,
};

describe("the direction of imports", () => {
  test("the agent knows nothing of queue, workers, producers and command line, and the store by its types only", () => {
    const forbidden = new Set(["queue", "worker", "producer", "workspace", "report", "config", "cli"]);
    expect(
      breaches(({ from, to, isTypeOnly }) => {
        if (folderOf(from) !== "agent") return false;
        return forbidden.has(folderOf(to)) || (folderOf(to) === "db" && !isTypeOnly);
      }),
    ).toEqual([]);
  });

  test("producers know nothing of agents, workers, models and tools", () => {
    const forbidden = new Set(["agent", "worker", "model", "tools", "environment", "workspace", "cli"]);
    expect(breaches(({ from, to }) => folderOf(from) === "producer" && forbidden.has(folderOf(to)))).toEqual(
      [],
    );
  });

  test("workers know of producers only what a task is", () => {
    expect(
      breaches(
        ({ from, to }) =>
          folderOf(from) === "worker" && folderOf(to) === "producer" && to !== "producer/task.ts",
      ),
    ).toEqual([]);
  });

  test("nothing imports the command line", () => {
    expect(breaches(({ from, to }) => folderOf(from) !== "cli" && folderOf(to) === "cli")).toEqual([]);
  });

  test("each package that could be exchanged is loaded in one place", () => {
    expect(
      breaches(({ from, to, isPackage, isTypeOnly }) => {
        const owner = Object.hasOwn(packageOwners, to) ? packageOwners[to] : undefined;
        return isPackage && !isTypeOnly && owner !== undefined && !owner.test(from);
      }),
    ).toEqual([]);
    // The wire's message types are the SDK's, but nobody outside of the model folder names them there.
    expect(breaches(({ from, to }) => to === "openai" && folderOf(from) !== "model")).toEqual([]);
  });

  test("Redis is loaded only where a queue is configured or doctor looks for it", () => {
    const ofRedis = /^queue\/(redis|bullmq)\.ts$/;
    const users = imports.filter(({ from, to }) => folderOf(from) !== "queue" && ofRedis.test(to));
    expect(users.every(({ isLazy }) => isLazy)).toBe(true);
    expect(users.map(({ from }) => from).sort()).toEqual(["cli/doctor.ts", "pawl.ts"]);
  });

  test("no two files, and no two folders, load each other at run time", () => {
    const loading = imports.filter(
      ({ isPackage, isTypeOnly, isLazy }) => !isPackage && !isTypeOnly && !isLazy,
    );
    expect(findCycle(loading)).toBeNull();
    const folders = loading
      .filter(({ from, to }) => from.includes("/") && to.includes("/"))
      .map(({ from, to }) => ({ from: folderOf(from), to: folderOf(to) }))
      .filter(({ from, to }) => from !== to);
    expect(findCycle(folders)).toBeNull();
  });
});

describe("the reading of imports", () => {
  test("all source files and every kind of import are seen", () => {
    expect(imports.length).toBeGreaterThan(300);
    expect(imports).toContainEqual({
      from: "worker/worker.ts",
      to: "worker/execute-run.ts",
      isPackage: false,
      isTypeOnly: false,
      isLazy: false,
    });
    expect(imports).toContainEqual(
      expect.objectContaining({ from: "queue/bullmq.ts", to: "bullmq", isLazy: true, isTypeOnly: false }),
    );
    expect(imports).toContainEqual(
      expect.objectContaining({ from: "pawl.ts", to: "queue/queue.ts", isTypeOnly: true }),
    );
  });

  test("types, values, re-exports, side effects and lists over several lines are told apart", () => {
    const lines = [
      'import type { A } from "../b.ts";',
      'import { type B, type C } from "./two.ts";',
      'import { type D, e } from "./three.ts";',
      'import {\n  f,\n  g,\n} from "@scope/package/sub";',
      'export { h } from "drizzle-orm/sqlite-core";',
      'import "./four.ts";',
      'const later = () => import("../five.ts");',
    ];
    const folder = temporaryFolder({ "a/one.ts": lines.join("\n") });
    const found = new Map(
      readImports(folder).map(({ to, isTypeOnly, isLazy }) => [
        to,
        isTypeOnly ? "type" : isLazy ? "lazy" : "value",
      ]),
    );
    expect(Object.fromEntries(found)).toEqual({
      "b.ts": "type",
      "a/two.ts": "type",
      "a/three.ts": "value",
      "@scope/package": "value",
      "drizzle-orm": "value",
      "a/four.ts": "value",
      "five.ts": "lazy",
    });
  });

  test("a cycle is found and a diamond is none", () => {
    const edges = (...pairs: string[]) => pairs.map((pair) => ({ from: pair[0] ?? "", to: pair[1] ?? "" }));
    expect(findCycle(edges("ab", "ac", "bd", "cd"))).toBeNull();
    expect(findCycle(edges("ab", "bc", "ca"))).toEqual(["a", "b", "c", "a"]);
  });
});
