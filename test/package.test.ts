import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
} from "node:fs";
import os from "node:os";
import path from "node:path";
import { execa } from "execa";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { temporaryFolder } from "./helpers/temporary-folder.ts";

const root = path.join(import.meta.dirname, "..");
const manifestSchema = z.looseObject({
  name: z.string(),
  version: z.string(),
  bin: z.object({ pawl: z.string() }),
  engines: z.object({ node: z.string() }),
  os: z.array(z.string()),
  exports: z.object({ ".": z.object({ types: z.string(), default: z.string() }) }),
  dependencies: z.record(z.string(), z.string()),
  devDependencies: z.record(z.string(), z.string()),
  allowScripts: z.record(z.string(), z.boolean()),
});
const manifest = manifestSchema.parse(readJson(path.join(root, "package.json")));

describe("the packed package", () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), "pawl-package-"));
  let installed: string;
  let files: string[];

  // Packed without scripts: dist was built before the tests, and other tests use it while this one runs.
  beforeAll(async () => {
    await execa("npm", ["pack", "--ignore-scripts", "--pack-destination", folder], { cwd: root });
    const [archive = ""] = readdirSync(folder);
    const modules = path.join(folder, "node_modules");
    mkdirSync(modules);
    await execa("tar", ["-xzf", path.join(folder, archive), "-C", modules]);
    installed = path.join(modules, "pawl");
    symlinkSync("package", installed);
    symlinkSync(path.join(root, "node_modules"), path.join(modules, "package", "node_modules"));
    const listed = await execa("tar", ["-tzf", path.join(folder, archive)]);
    files = listed.stdout.split("\n").map((file) => file.replace(/^package\//, ""));
  });

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test("holds the program, its migrations, documents and examples, and no source, test or benchmark", () => {
    const folders = new Set(files.map((file) => (file.includes("/") ? `${file.split("/")[0]}/` : file)));
    expect([...folders].sort()).toEqual([
      "ARCHITECTURE.md",
      "CHANGELOG.md",
      "LICENSE",
      "README.md",
      "dist/",
      "docker-compose.yml",
      "docs/",
      "examples/",
      "migrations/",
      "package.json",
    ]);
    const program = files.filter((file) => !file.startsWith("examples/"));
    expect(program.filter((file) => /\.test\.|\.map$|(?<!\.d)\.ts$/.test(file))).toEqual([]);
  });

  test("has documents that link to files it holds, or to sources and tests of the repository", () => {
    const documents = files.filter((file) => file.endsWith(".md") && !file.startsWith("dist/"));
    expect(documents).toEqual(expect.arrayContaining(["README.md", "docs/features.md"]));
    const links = documents.flatMap((document) =>
      [...readFileSync(path.join(installed, document), "utf8").matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)]
        .filter(([, link = ""]) => !/^https?:/.test(link))
        .map(([, link = ""]) => path.join(path.dirname(document), link)),
    );
    expect(links).toEqual(expect.arrayContaining(["examples", "docs/security.md"]));
    const elsewhere = links.filter((link) => !existsSync(path.join(installed, link)));
    expect(elsewhere.filter((link) => !/^(src|test)\//.test(link))).toEqual([]);
  });

  test("holds every file of the source that is read instead of imported", () => {
    const source = path.join(root, "src");
    const assets = readdirSync(source, { recursive: true, encoding: "utf8" }).filter(
      (file) => statSync(path.join(source, file)).isFile() && !file.endsWith(".ts"),
    );
    expect(assets.length).toBeGreaterThan(2);
    for (const asset of assets) expect(files).toContain(`dist/${asset}`);
    for (const migration of readdirSync(path.join(root, "migrations")).filter((file) =>
      file.endsWith(".sql"),
    )) {
      expect(files).toContain(`migrations/${migration}`);
    }
  });

  test("has an executable that starts with a shebang and works in a folder elsewhere", async () => {
    const bin = path.join(installed, manifest.bin.pawl);
    expect(statSync(bin).mode & 0o111).toBe(0o111);
    expect(readFileSync(bin, "utf8")).toMatch(/^#!\/usr\/bin\/env node\n/);
    const cwd = temporaryFolder();
    const options = { cwd, env: { PATH: process.env.PATH ?? "", HOME: cwd }, extendEnv: false };
    const version = await execa(bin, ["--version"], options);
    expect(version.stdout).toBe(manifest.version);
    const enqueued = await execa(bin, ["enqueue", "say hello", "--key", "hello", "--json"], options);
    expect(JSON.parse(enqueued.stdout)).toMatchObject({ key: "hello", created: true });
    const listed = await execa(bin, ["list", "--json"], options);
    expect(JSON.parse(listed.stdout)).toMatchObject({ key: "hello", status: "queued" });
  });

  test("is a library whose entry and types exist, and that a program imports by its name", async () => {
    const entry = manifest.exports["."];
    for (const file of [entry.types, entry.default])
      expect(existsSync(path.join(installed, file))).toBe(true);
    const code = 'import * as pawl from "pawl"; console.log(Object.keys(pawl).join(" "))';
    const cwd = path.dirname(path.dirname(installed));
    const result = await execa(process.execPath, ["--input-type=module", "--eval", code], { cwd });
    expect(result.stdout.split(" ")).toEqual(
      expect.arrayContaining(["openPawl", "runAgent", "defineTool", "scriptedModel", "RecoverableError"]),
    );
  });
});

describe("package.json and package-lock.json", () => {
  const lockText = readFileSync(path.join(root, "package-lock.json"), "utf8");

  test("name no path of a machine and no registry but the public one", () => {
    for (const text of [readFileSync(path.join(root, "package.json"), "utf8"), lockText]) {
      expect(text).not.toMatch(/"(file|link):|\/(home|root|Users|tmp|work)\//);
      const hosts = [...text.matchAll(/"resolved":\s*"([^"]+)"/g)].map(([, url = ""]) => new URL(url).host);
      expect(hosts.filter((host) => host !== "registry.npmjs.org")).toEqual([]);
    }
  });

  test("agree with each other", () => {
    const lock = z
      .object({ packages: z.object({ "": manifestSchema.partial() }) })
      .parse(JSON.parse(lockText)).packages[""];
    expect(lock.version).toBe(manifest.version);
    expect(lock.dependencies).toEqual(manifest.dependencies);
    expect(lock.devDependencies).toEqual(manifest.devDependencies);
  });

  test("say which packages may run a script when they are installed", () => {
    const { packages } = z
      .object({ packages: z.record(z.string(), z.looseObject({ hasInstallScript: z.boolean().optional() })) })
      .parse(JSON.parse(lockText));
    const withScript = Object.entries(packages)
      .filter(([, facts]) => facts.hasInstallScript)
      .map(([name]) => name.replace(/^.*node_modules\//, ""))
      // For macOS only; never installed where it has a script to run.
      .filter((name) => name !== "fsevents");
    for (const name of withScript) expect(Object.keys(manifest.allowScripts)).toContain(name);
    expect(manifest.allowScripts["better-sqlite3"]).toBe(true);
  });

  test("ask for Node 20 or newer and refuse Windows", () => {
    expect(manifest.engines.node).toBe(">=20");
    expect(manifest.os).toEqual(["!win32"]);
  });
});

function readJson(file: string): unknown {
  return JSON.parse(readFileSync(file, "utf8"));
}
