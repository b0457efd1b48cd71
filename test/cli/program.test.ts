import { readFileSync } from "node:fs";
import { execa } from "execa";
import { expect, test } from "vitest";
import { commandLine, mainFile } from "../helpers/command-line.ts";

test("--version is the package's, --help names every command", async () => {
  const { pawl } = commandLine();
  const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  expect(await pawl(["--version"])).toEqual({ stdout: version, stderr: "", code: 0 });
  const { stdout, code } = await pawl(["--help"]);
  expect(code).toBe(0);
  const names =
    "demo run enqueue worker status list show logs diff export apply cancel pause resume retry doctor stop backup tools";
  for (const name of names.split(" ")) expect(stdout).toMatch(new RegExp(`^ {2}${name}\\b`, "m"));
  expect((await pawl(["run", "--help"])).stdout).toContain("--max-steps");
  expect((await pawl(["help", "enqueue"])).stdout).toContain("--priority");
});

test.each([
  [["stauts"], "unknown command 'stauts' (Did you mean status?); see pawl --help"],
  [["show"], "missing required argument 'run'; see pawl show --help"],
  [["run"], "missing required argument 'prompt'; see pawl run --help"],
  [["list", "--batc", "x"], "unknown option '--batc' (Did you mean --batch?); see pawl list --help"],
  [["run", "fix", "the", "tests"], 'Put the prompt in quotes: pawl run "PROMPT"'],
  [["worker", "now"], "too many arguments for 'worker'"],
  [["list", "--status", "done"], "expected --status to be one of queued, running"],
  [["list", "--limit", "none"], "expected --limit to be a whole number above 0, got none"],
  [["run", "x", "--continue", "y"], "--continue is not built yet"],
  [["demo", "--break", "all"], "--break: expected format, timeout, unknown-tool, got all"],
])("pawl %j is wrong use: one line on stderr, exit code 2", async (words, message) => {
  const { pawl } = commandLine({ env: { OPENAI_API_KEY: "k" } });
  const { stdout, stderr, code } = await pawl(words);
  expect({ stdout, code }).toEqual({ stdout: "", code: 2 });
  expect(stderr).toMatch(/^pawl: /);
  expect(stderr).toContain(message);
  expect(stderr.split("\n")).toHaveLength(1);
});

test("a reader that goes away is no fault", async () => {
  const { env, folder, pawl } = commandLine();
  const tasks = Array.from({ length: 3000 }, (_, index) => JSON.stringify({ prompt: `task ${index}` }));
  await pawl(["enqueue", "--file", "-"], { input: tasks.join("\n") });
  const options = { cwd: folder, env, extendEnv: false, reject: false } as const;
  for (const words of ["list", "list --json"]) {
    const line = `"${process.execPath}" "${mainFile}" ${words} | head -1; echo "\${PIPESTATUS[0]}"`;
    const { stdout, stderr } = await execa("bash", ["-c", line], { ...options, timeout: 20_000 });
    expect(stderr).toBe("");
    expect(stdout.split("\n")).toHaveLength(2);
    expect(stdout).toMatch(/\n0$/);
  }
});

test("doctor names what is there and what is missing, and makes nothing", async () => {
  const { pawl, json, folder } = commandLine();
  const missing = await pawl(["doctor"]);
  expect(missing.code).toBe(1);
  expect(missing.stdout).toMatch(/^ok +node +v/m);
  expect(missing.stdout).toMatch(/^MISSING +model +expected a key in OPENAI_API_KEY/m);
  const { stdout, code } = await pawl(["doctor", "--json"], { env: { OPENAI_API_KEY: "k" } });
  expect(code).toBe(0);
  const report = JSON.parse(stdout) as { ok: boolean; checks: { name: string; ok: boolean }[] };
  expect(report.ok).toBe(true);
  expect(report.checks.map(({ name }) => name)).toEqual([
    "node",
    "git",
    "bash",
    "data",
    "database",
    "workers",
    "model",
    "tools",
    "queue",
  ]);
  expect(stdout).not.toContain('"k"');
  expect(await json(["status"])).toMatchObject([{ total: 0, dataDir: `${folder}/.pawl` }]);
});

test("doctor and run refuse a window that has no room for a prompt, and nothing is enqueued", async () => {
  const files = { "pawl.config.json": '{ "contextTokens": 100, "maxOutputTokens": 8000 }' };
  const { pawl, json } = commandLine({ files, env: { OPENAI_API_KEY: "k" } });
  const refusal =
    /expected a window with at least 2000 tokens beside the reply, got 100 .*lower maxOutputTokens/;
  const doctor = await pawl(["doctor"]);
  expect(doctor.code).toBe(1);
  expect(doctor.stdout).toMatch(refusal);
  const run = await pawl(["run", "x"]);
  expect(run.code).toBe(2);
  expect(run.stderr).toMatch(refusal);
  expect(run.stderr.split("\n")).toHaveLength(1);
  expect(await json(["status"])).toMatchObject([{ total: 0 }]);
});

test("look commands start without loading what only work needs", async () => {
  const { pawl } = commandLine();
  await pawl(["enqueue", "x", "--key", "k"]);
  for (const words of [["status"], ["list"], ["show", "k"], ["logs", "k"]]) {
    const times: number[] = [];
    for (let round = 0; round < 3; round += 1) {
      const startedAt = performance.now();
      await pawl(words);
      times.push(performance.now() - startedAt);
    }
    // A fifth of a second on an idle machine; the bound is generous.
    expect(Math.min(...times)).toBeLessThan(1500);
  }
});
