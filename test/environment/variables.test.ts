import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { commandVariables } from "../../src/environment/variables.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const noGitConfig = { GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_SYSTEM: "/dev/null" };

test("keys and tokens of the worker do not reach commands, paths and locale do", async () => {
  const from = {
    PATH: "/bin:/usr/bin",
    LC_ALL: "C.UTF-8",
    PYENV_ROOT: "/p",
    OPENAI_API_KEY: "sk-1",
    GITHUB_TOKEN: "t",
    AWS_SECRET_ACCESS_KEY: "s",
    NODE_TEST_CONTEXT: "child-v8",
    SSH_AUTH_SOCK: "/s",
  };
  const variables = await commandVariables({ from, workspace: temporaryFolder(), gitCeiling: null });
  expect(variables).toMatchObject({ PATH: "/bin:/usr/bin", LC_ALL: "C.UTF-8", PYENV_ROOT: "/p", CI: "1" });
  const kept = Object.keys(from).filter((name) => name in variables);
  expect(kept).toEqual(["PATH", "LC_ALL", "PYENV_ROOT"]);
});

test("a variable that is named is passed on", async () => {
  const from = { DATABASE_TOKEN: "t" };
  const options = { from, workspace: temporaryFolder(), gitCeiling: null, pass: ["DATABASE_TOKEN"] };
  expect(await commandVariables(options)).toMatchObject({ DATABASE_TOKEN: "t" });
});

test("pagers, prompts and editors cannot hang a command, whatever the worker has set", async () => {
  const from = { PAGER: "less", EDITOR: "vim", GIT_TERMINAL_PROMPT: "1" };
  const variables = await commandVariables({ from, workspace: temporaryFolder(), gitCeiling: "/ceiling" });
  expect(variables).toMatchObject({
    PAGER: "cat",
    GIT_PAGER: "cat",
    EDITOR: "true",
    GIT_TERMINAL_PROMPT: "0",
    GIT_CEILING_DIRECTORIES: "/ceiling",
  });
});

test("a git identity is given only where none is configured", async () => {
  const workspace = temporaryFolder();
  const from = { PATH: process.env.PATH, HOME: workspace, ...noGitConfig };
  const variables = await commandVariables({ from, workspace, gitCeiling: null });
  expect(variables.GIT_AUTHOR_EMAIL).toBe("agent@pawl.invalid");
  execFileSync("git", ["init", "-q"], { cwd: workspace });
  execFileSync("git", ["config", "user.email", "me@example.org"], { cwd: workspace });
  expect(await commandVariables({ from, workspace, gitCeiling: null })).not.toHaveProperty(
    "GIT_AUTHOR_EMAIL",
  );
});
