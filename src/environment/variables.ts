import { execFile } from "node:child_process";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Looking for a git identity takes no longer than this. */
const gitTimeoutMs = 5_000;

export interface VariableOptions {
  /** The worker's environment. */
  from: Readonly<Record<string, string | undefined>>;
  /** Where the commands run. */
  workspace: string;
  /** Git looks for a repository up to, and not in, this directory; null is without a limit. */
  gitCeiling: string | null;
  /** Names of further variables to pass on, secrets included: naming them is the permission. */
  pass?: string[];
}

/**
 * The environment of an agent's commands: an allow-list of the worker's variables, so that no key or token gets through,
 * and settings that keep programs from waiting for a person. A git identity is added only where none is configured.
 */
export async function commandVariables(options: VariableOptions): Promise<Record<string, string>> {
  const variables: Record<string, string> = { PATH: "/usr/local/bin:/usr/bin:/bin" };
  for (const [name, value] of Object.entries(options.from)) {
    if (value !== undefined && (isPassed(name) || options.pass?.includes(name))) variables[name] = value;
  }
  Object.assign(variables, unattended);
  if (options.gitCeiling !== null) variables.GIT_CEILING_DIRECTORIES = options.gitCeiling;
  if (!hasIdentity(variables) && !(await hasConfiguredIdentity(options.workspace, variables))) {
    Object.assign(variables, identity);
  }
  return variables;
}

/** No pager, colour, progress bar, prompt or editor; output as soon as it is written. */
const unattended = {
  CI: "1",
  TERM: "dumb",
  NO_COLOR: "1",
  PAGER: "cat",
  MANPAGER: "cat",
  GIT_PAGER: "cat",
  GH_PAGER: "cat",
  SYSTEMD_PAGER: "cat",
  LESS: "-R",
  EDITOR: "true",
  VISUAL: "true",
  GIT_EDITOR: "true",
  GIT_SEQUENCE_EDITOR: "true",
  GIT_MERGE_AUTOEDIT: "no",
  GIT_TERMINAL_PROMPT: "0",
  GIT_ASKPASS: "/bin/false",
  SSH_ASKPASS: "/bin/false",
  SSH_ASKPASS_REQUIRE: "never",
  GIT_SSH_COMMAND: "ssh -o BatchMode=yes",
  GCM_INTERACTIVE: "never",
  DEBIAN_FRONTEND: "noninteractive",
  npm_config_yes: "true",
  npm_config_fund: "false",
  npm_config_update_notifier: "false",
  PIP_NO_INPUT: "1",
  PIP_PROGRESS_BAR: "off",
  PIP_DISABLE_PIP_VERSION_CHECK: "1",
  TQDM_DISABLE: "1",
  PYTHONUNBUFFERED: "1",
};

const identity = {
  GIT_AUTHOR_NAME: "pawl agent",
  GIT_AUTHOR_EMAIL: "agent@pawl.invalid",
  GIT_COMMITTER_NAME: "pawl agent",
  GIT_COMMITTER_EMAIL: "agent@pawl.invalid",
};

const passedNames = new Set(
  [
    "PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TMPDIR HOSTNAME",
    "XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_RUNTIME_DIR",
    "HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY http_proxy https_proxy no_proxy all_proxy",
    "SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS REQUESTS_CA_BUNDLE CURL_CA_BUNDLE GIT_SSL_CAINFO",
    "VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_EXE PYENV_ROOT PYENV_VERSION PYTHONPATH POETRY_HOME",
    "UV_CACHE_DIR UV_PYTHON_INSTALL_DIR PIPX_HOME PIP_CACHE_DIR",
    "NVM_DIR NVM_BIN FNM_DIR VOLTA_HOME N_PREFIX PNPM_HOME BUN_INSTALL DENO_DIR COREPACK_HOME npm_config_cache",
    "ASDF_DIR ASDF_DATA_DIR MISE_DATA_DIR MISE_CONFIG_DIR RBENV_ROOT RVM_PATH GEM_HOME GEM_PATH BUNDLE_PATH",
    "GOPATH GOROOT GOBIN GOCACHE GOMODCACHE GOPROXY CARGO_HOME RUSTUP_HOME SDKMAN_DIR JAVA_HOME GRADLE_USER_HOME",
    "MAVEN_HOME ANDROID_HOME ANDROID_SDK_ROOT DOTNET_ROOT COMPOSER_HOME HOMEBREW_PREFIX NIX_PROFILES NIX_PATH",
    "LD_LIBRARY_PATH PKG_CONFIG_PATH CPATH LIBRARY_PATH",
    "GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM",
  ].flatMap((line) => line.split(" ")),
);

function isPassed(name: string): boolean {
  return passedNames.has(name) || name.startsWith("LC_");
}

function hasIdentity(variables: Record<string, string>): boolean {
  return variables.GIT_AUTHOR_EMAIL !== undefined || variables.GIT_COMMITTER_EMAIL !== undefined;
}

async function hasConfiguredIdentity(cwd: string, env: Record<string, string>): Promise<boolean> {
  try {
    await run("git", ["config", "--get", "user.email"], { cwd, env, timeout: gitTimeoutMs });
    return true;
  } catch {
    return false;
  }
}
