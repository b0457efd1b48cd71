import { mkdirSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { execa, type ResultPromise } from "execa";
import { onTestFinished } from "vitest";
import { temporaryFolder } from "./temporary-folder.ts";

export const mainFile = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));

const limitMs = 40_000;

export interface Finished {
  stdout: string;
  stderr: string;
  code: number | undefined;
}

export type PawlProcess = ResultPromise<{ reject: false; extendEnv: false }>;

/** A user's folder with a home of its own, and `pawl` as that user runs it: nothing of this process's environment. */
export interface CommandLine {
  folder: string;
  env: Record<string, string>;
  /** Runs `pawl` to its end. */
  pawl(words: string[], options?: { input?: string; env?: Record<string, string> }): Promise<Finished>;
  /** Starts `pawl`; killed when the test ends. */
  start(words: string[], options?: { env?: Record<string, string> }): PawlProcess;
  /** What `pawl … --json` prints, a document a line. */
  json(words: string[]): Promise<Record<string, unknown>[]>;
}

export function commandLine(
  options: { files?: Record<string, string>; env?: Record<string, string> } = {},
): CommandLine {
  const { files = {} } = options;
  const inProject = Object.entries(files).map(([name, content]) => [path.join("project", name), content]);
  const root = temporaryFolder(Object.fromEntries(inProject));
  const folder = path.join(root, "project");
  mkdirSync(folder, { recursive: true });
  const env = {
    PATH: process.env.PATH ?? "",
    HOME: path.join(root, "home"),
    TMPDIR: root,
    ...options.env,
  };

  function start(words: string[], { env: more = {} }: { env?: Record<string, string> } = {}): PawlProcess {
    const child = execa(process.execPath, [mainFile, ...words], {
      cwd: folder,
      env: { ...env, ...more },
      extendEnv: false,
      reject: false,
      timeout: limitMs,
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    return child;
  }

  async function pawl(
    words: string[],
    { input = "", env: more = {} }: { input?: string; env?: Record<string, string> } = {},
  ): Promise<Finished> {
    const child = start(words, { env: more });
    child.stdin?.end(input);
    const { stdout, stderr, exitCode } = await child;
    return { stdout: String(stdout), stderr: String(stderr), code: exitCode };
  }

  return {
    folder,
    env,
    pawl,
    start,
    async json(words) {
      const { stdout, stderr, code } = await pawl([...words, "--json"]);
      if (code !== 0) throw new Error(`pawl ${words.join(" ")} ended with ${code}: ${stderr}`);
      return stdout
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line) as Record<string, unknown>);
    },
  };
}
