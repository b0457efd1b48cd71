import { readdirSync } from "node:fs";
import path from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
import { localEnvironment } from "../src/environment/local.ts";
import { temporaryFolder } from "./helpers/temporary-folder.ts";

const main = path.join(import.meta.dirname, "..", "dist", "cli", "main.js");

/** A preloaded module that makes Node say it runs on this platform. */
function pretend(platform: string): string {
  const code = `Object.defineProperty(process, "platform", { value: ${JSON.stringify(platform)} })`;
  return `--import=data:text/javascript,${encodeURIComponent(code)}`;
}

test.each([
  ["enqueue", "do it"],
  ["status", "--json"],
  ["worker", "--drain"],
])("on Windows `pawl %s` refuses in one line that names WSL, and makes nothing", async (...words) => {
  const cwd = temporaryFolder();
  const env = { PATH: process.env.PATH ?? "", HOME: cwd };
  const result = await execa(process.execPath, [pretend("win32"), main, ...words], {
    cwd,
    env,
    extendEnv: false,
    reject: false,
  });
  expect(result.exitCode).toBe(2);
  expect(result.stdout).toBe("");
  expect(result.stderr).toMatch(/^pawl: [^\n]*Windows[^\n]*WSL[^\n]*$/);
  expect(readdirSync(cwd)).toEqual([]);
});

test("where there is no /proc a shell command is refused with the reason, and nothing of it runs", async () => {
  const cwd = temporaryFolder();
  const command = {
    base: path.join(cwd, "1.1.1"),
    outputFile: path.join(cwd, "1.1.1.log"),
    script: "true",
    cwd,
    env: {},
    silenceMs: 1_000,
    timeoutMs: 1000,
  };
  await expect(localEnvironment({ platform: "darwin" }).start(command)).rejects.toThrow(
    "shell commands need Linux",
  );
  expect(readdirSync(cwd)).toEqual([]);
});
