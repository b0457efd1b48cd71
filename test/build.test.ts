import { spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
import { temporaryFolder } from "./helpers/temporary-folder.ts";

// An install builds again while a pawl may run from dist. The project is copied, as dist itself is what other tests use.

const root = path.join(import.meta.dirname, "..");

/** The project as a fresh build left it. */
async function builtProject() {
  const folder = temporaryFolder();
  for (const name of ["src", "scripts", "tsconfig.json", "tsconfig.build.json", "package.json"])
    cpSync(path.join(root, name), path.join(folder, name), { recursive: true });
  symlinkSync(path.join(root, "node_modules"), path.join(folder, "node_modules"));
  const inProject = (name: string) => path.join(folder, name);
  const build = () => execa(process.execPath, [inProject("scripts/build.mjs")], { reject: false });
  expect((await build()).exitCode).toBe(0);
  const version = inProject("src/version.ts");
  return { folder, inProject, build, version };
}

const folders = (folder: string) => readdirSync(folder).filter((name) => name.startsWith("dist"));

test("a build that changes nothing leaves dist alone; one that does puts a whole one in its place", async () => {
  const { folder, inProject, build, version } = await builtProject();
  const before = statSync(inProject("dist")).ino;
  expect((await build()).exitCode).toBe(0);
  expect(statSync(inProject("dist")).ino).toBe(before);
  writeFileSync(version, `${readFileSync(version, "utf8")}export const added = 1;\n`);
  writeFileSync(inProject("dist/stale.js"), "");
  // Left by a build that was killed: no process has this id.
  mkdirSync(inProject(`dist.${spawnSync("true").pid}.tmp`));
  expect((await build()).exitCode).toBe(0);
  expect(readFileSync(inProject("dist/version.js"), "utf8")).toContain("added");
  expect(existsSync(inProject("dist/stale.js"))).toBe(false);
  expect(folders(folder)).toEqual(["dist"]);
});

test("a build that fails leaves the dist that was there", async () => {
  const { folder, inProject, build, version } = await builtProject();
  writeFileSync(version, `${readFileSync(version, "utf8")}export const added: string = 1;\n`);
  const failed = await build();
  expect(failed.exitCode).toBe(1);
  expect(failed.stdout).toContain("src/version.ts");
  expect(readFileSync(inProject("dist/version.js"), "utf8")).not.toContain("added");
  expect(folders(folder)).toEqual(["dist"]);
});

test("pawl starts while a build is under way", async () => {
  const { inProject, build, version } = await builtProject();
  writeFileSync(version, `${readFileSync(version, "utf8")}export const added = 1;\n`);
  const building = build();
  let starts = 0;
  let isDone = false;
  void building.then(() => (isDone = true));
  while (!isDone) {
    const { exitCode, stderr } = await execa(process.execPath, [inProject("dist/cli/main.js"), "--version"], {
      reject: false,
    });
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    starts++;
  }
  expect((await building).exitCode).toBe(0);
  expect(starts).toBeGreaterThan(0);
});

test("two builds at once both succeed", async () => {
  const { folder, inProject, build, version } = await builtProject();
  writeFileSync(version, `${readFileSync(version, "utf8")}export const added = 1;\n`);
  const both = await Promise.all([build(), build()]);
  expect(both.map(({ exitCode }) => exitCode)).toEqual([0, 0]);
  expect(readFileSync(inProject("dist/version.js"), "utf8")).toContain("added");
  expect(folders(folder)).toEqual(["dist"]);
});
