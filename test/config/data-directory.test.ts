import { execFileSync } from "node:child_process";
import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { createDataDirectory, hasData, resolveDataPaths } from "../../src/config/data-directory.ts";
import { ConfigError } from "../../src/errors.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

it("the data directory is ./.pawl where none is upward, and looking makes nothing", () => {
  const cwd = temporaryFolder();
  const paths = resolveDataPaths({ cwd, env: { HOME: "/home/me" } });
  expect(paths.dataDir).toBe(path.join(cwd, ".pawl"));
  expect(paths.database).toBe(path.join(cwd, ".pawl", "pawl.db"));
  expect(paths.workspaces).toMatch(/^\/home\/me\/\.local\/state\/pawl\/[0-9a-f]{12}$/);
  expect(hasData(paths)).toBe(false);
  expect(readdirSync(cwd)).toEqual([]);
});

it("the nearest .pawl upward is used, and a file of that name is none", () => {
  const root = temporaryFolder({ ".pawl/id": "", "a/.pawl": "a file", "a/b/file": "" });
  const { dataDir } = resolveDataPaths({ cwd: path.join(root, "a", "b"), env: {} });
  expect(dataDir).toBe(path.join(root, ".pawl"));
});

it.runIf(process.getuid?.() === 0)("a .pawl upward that belongs to somebody else is not used", () => {
  const root = temporaryFolder({ ".pawl/id": "", "a/file": "" });
  chownSync(path.join(root, ".pawl"), 12345, 12345);
  expect(resolveDataPaths({ cwd: path.join(root, "a"), env: {} }).dataDir).toBe(
    path.join(root, "a", ".pawl"),
  );
});

it("PAWL_HOME goes before everything and holds the workspaces", () => {
  const root = temporaryFolder({ ".pawl/id": "" });
  const paths = resolveDataPaths({ cwd: root, env: { PAWL_HOME: "elsewhere" } });
  expect(paths.dataDir).toBe(path.join(root, "elsewhere"));
  expect(paths.workspaces).toBe(path.join(root, "elsewhere", "workspaces"));
});

it("PAWL_HOME may stand in .env", () => {
  const cwd = temporaryFolder({ ".env": "PAWL_HOME=/srv/pawl" });
  expect(resolveDataPaths({ cwd, env: {} }).dataDir).toBe("/srv/pawl");
});

it("XDG_STATE_HOME holds the workspaces, unless it is relative", () => {
  const cwd = temporaryFolder();
  const env = { HOME: "/home/me" };
  expect(resolveDataPaths({ cwd, env: { ...env, XDG_STATE_HOME: "/state" } }).workspaces).toMatch(
    /^\/state\/pawl\/[0-9a-f]{12}$/,
  );
  expect(resolveDataPaths({ cwd, env: { ...env, XDG_STATE_HOME: "state" } }).workspaces).toMatch(
    /^\/home\/me\//,
  );
});

it("a made data directory is private and ignores itself in git", async () => {
  const cwd = temporaryFolder();
  const paths = resolveDataPaths({ cwd, env: { XDG_STATE_HOME: path.join(cwd, "state") } });
  await createDataDirectory(paths);
  await createDataDirectory(paths);
  expect(statSync(paths.dataDir).mode & 0o777).toBe(0o700);
  expect(statSync(paths.workspaces).mode & 0o777).toBe(0o700);
  execFileSync("git", ["init", "--quiet"], { cwd });
  const status = execFileSync("git", ["status", "--porcelain", "--untracked-files=all"], {
    cwd,
    encoding: "utf8",
  });
  expect(status).not.toContain(".pawl");
});

it("two data directories have different workspaces, and a moved one keeps its own", async () => {
  const root = temporaryFolder({ "a/file": "", "b/file": "" });
  const env = { XDG_STATE_HOME: path.join(root, "state") };
  const first = resolveDataPaths({ cwd: path.join(root, "a"), env });
  const second = resolveDataPaths({ cwd: path.join(root, "b"), env });
  expect(first.workspaces).not.toBe(second.workspaces);
  await createDataDirectory(first);
  expect(resolveDataPaths({ cwd: path.join(root, "a"), env })).toEqual(first);
  renameSync(path.join(root, "a"), path.join(root, "moved"));
  expect(resolveDataPaths({ cwd: path.join(root, "moved"), env }).workspaces).toBe(first.workspaces);
});

it("an existing folder named by PAWL_HOME is not hidden from git", async () => {
  const cwd = temporaryFolder({ "home/mine": "" });
  const paths = resolveDataPaths({ cwd, env: { PAWL_HOME: "home" } });
  await createDataDirectory(paths);
  expect(existsSync(path.join(cwd, "home", ".gitignore"))).toBe(false);
  expect(readFileSync(path.join(cwd, "home", "id"), "utf8")).toMatch(/^[0-9a-f]{12}\n$/);
});

it("there is data once there is a database", () => {
  const cwd = temporaryFolder();
  const paths = resolveDataPaths({ cwd, env: {} });
  mkdirSync(paths.dataDir);
  expect(hasData(paths)).toBe(false);
  writeFileSync(paths.database, "");
  expect(hasData(paths)).toBe(true);
});

it("a data directory that cannot be made is a configuration error that says what to set", async () => {
  const cwd = temporaryFolder({ ".pawl": "a file" });
  const creation = createDataDirectory(resolveDataPaths({ cwd, env: {} }));
  await expect(creation).rejects.toThrow(ConfigError);
  await expect(creation).rejects.toThrow(/set PAWL_HOME/);
});

it.each(["file", "file/below"])(
  "a data directory that is no folder is an error where one looks: %s",
  (home) => {
    const cwd = temporaryFolder({ file: "mine" });
    const paths = resolveDataPaths({ cwd, env: { PAWL_HOME: home } });
    expect(() => hasData(paths)).toThrow(ConfigError);
    expect(() => hasData(paths)).toThrow(
      `expected the data directory ${path.join(cwd, home)} to be a folder that can be read, got a path that is none`,
    );
  },
);

it.runIf(process.platform === "linux")(
  "where the system takes no folders, making one ends with an error",
  async () => {
    const creation = createDataDirectory(
      resolveDataPaths({ cwd: "/", env: { PAWL_HOME: "/proc/pawl/data" } }),
    );
    await expect(creation).rejects.toThrow(ConfigError);
    await expect(creation).rejects.toThrow(/cannot make the data directory \/proc\/pawl\/data: ENOENT/);
  },
);
