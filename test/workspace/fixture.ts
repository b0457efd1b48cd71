import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach } from "vitest";
import { type DataPaths, type RunPaths, runPaths } from "../../src/paths.ts";
import { finishWorkspace } from "../../src/workspace/finish.ts";
import { prepareWorkspace } from "../../src/workspace/prepare.ts";
import type { Products, Workspace, WorkspaceRequest } from "../../src/workspace/workspace.ts";

export interface Fixture {
  root: string;
  paths: DataPaths;
  /** Runs a shell script in a folder below the root and returns its output, trimmed. */
  sh(folder: string, script: string): string;
  /** Makes a repository with `a.txt` and `b.txt` committed on `main`. */
  repository(name?: string): string;
  request(runId: string, source: Partial<WorkspaceRequest>): WorkspaceRequest;
  prepare(runId: string, source: Partial<WorkspaceRequest>): Promise<Workspace>;
  finish(runId: string, workspace: Workspace, key?: string | null): Promise<Products>;
  run(runId: string): RunPaths;
}

/** A temporary folder with a home of its own for every test of the file; git finds no user there. */
export function useFixture(): Fixture {
  let root = "";
  let before: NodeJS.ProcessEnv;
  beforeEach(() => {
    root = realpathSync(mkdtempSync(path.join(tmpdir(), "pawl-workspace-")));
    before = { ...process.env };
    process.env.HOME = path.join(root, "home");
    delete process.env.XDG_CONFIG_HOME;
    process.env.GIT_CONFIG_NOSYSTEM = "1";
    mkdirSync(process.env.HOME);
  });
  afterEach(() => {
    process.env = before;
    rmSync(root, { recursive: true, force: true });
  });
  const fixture: Fixture = {
    get root() {
      return root;
    },
    get paths() {
      const dataDir = path.join(root, "data");
      const at = (name: string) => path.join(dataDir, name);
      return {
        dataDir,
        database: at("pawl.db"),
        repos: at("repos"),
        workspaces: path.join(root, "workspaces"),
      };
    },
    sh: (folder, script) => shell(path.resolve(root, folder), script),
    repository(name = "source") {
      mkdirSync(path.join(root, name));
      shell(
        path.join(root, name),
        "git init -q -b main; echo one > a.txt; echo one > b.txt; git add .; git commit -qm first",
      );
      return path.join(root, name);
    },
    request: (runId, source) => ({
      ...{ paths: fixture.paths, run: fixture.run(runId), repo: null, ref: null, dir: null },
      ...source,
    }),
    prepare: (runId, source) => prepareWorkspace(fixture.request(runId, source)),
    finish: (runId, workspace, key = null) =>
      finishWorkspace({ run: fixture.run(runId), workspace, runId, key, title: "Fix the test" }),
    run: (runId) => runPaths(fixture.paths, runId),
  };
  return fixture;
}

function shell(cwd: string, script: string): string {
  const person = ["AUTHOR", "COMMITTER"].flatMap((role) => [
    [`GIT_${role}_NAME`, "Person"],
    [`GIT_${role}_EMAIL`, "person@example.org"],
  ]);
  const env = { ...process.env, ...Object.fromEntries(person) };
  return execFileSync("bash", ["-ec", script], { cwd, env, encoding: "utf8", stdio: "pipe" }).trim();
}
