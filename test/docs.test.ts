import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { getTableName, isTable } from "drizzle-orm";
import { describe, expect, test } from "vitest";
import * as schema from "../src/db/schema.ts";
import { failpoints } from "../src/failpoint.ts";
import { providerNamed, providerNames } from "../src/model/profiles.ts";
import { reasonClasses, statuses } from "../src/outcome.ts";
import { fieldFlags } from "../src/producer/fields.ts";

// Documents go stale in silence. What they name is compared with what there is.

const root = path.join(import.meta.dirname, "..");
const docsFolder = path.join(root, "docs");
const documents = [
  "README.md",
  "ARCHITECTURE.md",
  "CHANGELOG.md",
  ...readdirSync(docsFolder).map((name) => `docs/${name}`),
];
const read = (document: string) => readFileSync(path.join(root, document), "utf8");

describe("README.md", () => {
  const readme = read("README.md");

  test("is short", () => {
    expect(readme.split("\n").length).toBeLessThanOrEqual(150);
  });

  test("begins with the two commands of a fresh machine", () => {
    const blocks = [...readme.matchAll(/^```\w*\n(.*?)\n```$/gms)].map(([, block]) => block);
    expect(blocks.slice(0, 2)).toEqual(["npm install && npx pawl demo", "npm install && npm test"]);
  });
});

describe.each(documents)("%s", (document) => {
  const text = read(document);

  test("links to files that there are", () => {
    const links = [...text.matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)].map(([, link = ""]) => link);
    const missing = links.filter(
      (link) => !/^https?:/.test(link) && !existsSync(path.join(root, path.dirname(document), link)),
    );
    expect(missing).toEqual([]);
  });

  test("names source files that there are", () => {
    const names = [...text.matchAll(/`((?:src|test|migrations|scripts)\/[\w./-]*)`/g)].map(
      ([, name = ""]) => name,
    );
    expect(names.filter((name) => !existsSync(path.join(root, name)))).toEqual([]);
  });
});

describe("docs/features.md", () => {
  const rows = read("docs/features.md")
    .split("\n")
    .map((line) => line.split("|").map((cell) => cell.trim()))
    .filter(([, id = ""]) => /^[A-Z]\d+$/.test(id))
    .map(([, id = "", what = "", where = "", proof = ""]) => ({ id, what, where, proof }));

  test("has every row once, in order", () => {
    const sizes = { C: 9, A: 12, B: 17, N: 6, D: 5, M: 14, I: 10 };
    const ids = Object.entries(sizes).flatMap(([letter, size]) =>
      Array.from({ length: size }, (_, index) => `${letter}${index + 1}`),
    );
    expect(rows.map(({ id }) => id)).toEqual(ids);
  });

  test("names a place and a test for all that is there", () => {
    const built = rows.filter(({ where }) => !where.startsWith("not yet"));
    expect(built.length).toBeGreaterThan(40);
    expect(
      built.filter(({ where, proof }) => !where.includes("`") || !proof.includes("](")).map(({ id }) => id),
    ).toEqual([]);
  });
});

describe("ARCHITECTURE.md", () => {
  const architecture = read("ARCHITECTURE.md");
  const missing = (names: Iterable<string>) =>
    [...names].filter((name) => !architecture.includes(`\`${name}\``));

  test("lists every field of a task, and those that are refused until they are built", () => {
    const section = architecture.slice(architecture.indexOf("## Fields of a task"));
    const [built = "", refused = ""] = section.slice(0, section.indexOf("\n## ")).split("Refused by name");
    for (const { name, isBuilt } of fieldFlags) expect(isBuilt ? built : refused).toContain(`\`${name}\``);
  });

  test("names every failpoint, reason and table", () => {
    expect(missing(failpoints)).toEqual([]);
    expect(missing(Object.values(reasonClasses).flat())).toEqual([]);
    const tables = Object.values(schema).flatMap((each) => (isTable(each) ? [getTableName(each)] : []));
    expect(tables.length).toBeGreaterThan(8);
    expect(missing(tables)).toEqual([]);
    for (const status of statuses) expect(architecture).toContain(status);
  });
});

test("the repository has its parts where a reader looks for them", () => {
  const parts = [
    "package.json",
    "tsconfig.json",
    "docker-compose.yml",
    "LICENSE",
    ".env.example",
    ".ci/run",
    "migrations",
    "test",
  ];
  const folders = [
    "worker",
    "producer",
    "db",
    "queue",
    "agent",
    "model",
    "tools",
    "environment",
    "workspace",
    "cli",
  ];
  const all = [...parts, ...folders.map((folder) => `src/${folder}`)];
  expect(all.filter((part) => !existsSync(path.join(root, part)))).toEqual([]);
});

test("docs/providers.md has every provider with its base URL and key variables", () => {
  const [table = ""] = read("docs/providers.md").split("## Which key goes where");
  const rows = [...table.matchAll(/^\| `([\w.]+)`[^|]* \| (\S+) [^|]*\| (.*) \|$/gm)];
  const documented = rows.map(([, name, baseUrl, keys = ""]) => ({
    name,
    baseUrl: baseUrl === "must" ? null : baseUrl,
    keys: [...keys.matchAll(/`(\w+)`/g)].map(([, variable]) => variable),
  }));
  const known = providerNames.map((name) => {
    const { baseUrl = null, keyVariables = [] } = providerNamed(name) ?? {};
    const isFree = name === "ollama" || name === "lmstudio";
    return { name, baseUrl, keys: isFree ? [] : keyVariables };
  });
  expect(documented).toEqual(known);
});
