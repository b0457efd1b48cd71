import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { defaultLimits, type Limits } from "../../src/environment/limits.ts";
import { localEnvironment } from "../../src/environment/local.ts";
import { processesWith } from "../helpers/processes.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

// Root takes control groups where it can make them; any other user has limits of a process and a supervisor that looks.
// A container of the tests may let root make none: then both halves prove the second way.

const never = new AbortController().signal;
const megabyte = 1_000_000;
const limits: Limits = {
  ...defaultLimits,
  processes: 40,
  memoryBytes: 200 * megabyte,
  fileBytes: 2 * megabyte,
};
/** Nobody else runs anything as this user. */
const otherUid = 64_123;
// Held for a while, as the supervisor looks once a second.
const allocate =
  "node -e 'const held = Buffer.alloc(1e9, 1); setTimeout(() => console.log(`it`, `fits`, held.length), 10_000)'";

interface Ended {
  exitCode: number | null;
  signal: string | null;
  output: string;
}

/** Runs a command as this user. */
async function run(script: string, changes: Partial<Limits> = {}): Promise<Ended> {
  const command = commandOf(script, temporaryFolder());
  const environment = localEnvironment({ limits: { ...limits, ...changes } });
  await environment.start(command);
  const { exitCode, signal } = await environment.wait(command, never);
  return { exitCode, signal, output: readFileSync(command.outputFile, "utf8") };
}

/** Runs a command in a process of another user. */
function runAsOther(script: string): Ended {
  const folder = temporaryFolder();
  spawnSync("chown", ["-R", `${otherUid}`, folder]);
  const built = path.join(import.meta.dirname, "..", "..", "dist", "environment", "local.js");
  const program = `
    const { localEnvironment } = await import(${JSON.stringify(built)});
    const environment = localEnvironment({ limits: ${JSON.stringify(limits)} });
    const command = ${JSON.stringify(commandOf(script, folder))};
    await environment.start(command);
    console.log(JSON.stringify(await environment.wait(command, new AbortController().signal)));
  `;
  const user = ["--reuid", `${otherUid}`, "--regid", `${otherUid}`, "--clear-groups"];
  const node = [process.execPath, "--input-type=module", "--eval", program];
  const { stdout, stderr } = spawnSync("setpriv", [...user, ...node], { encoding: "utf8", cwd: "/" });
  expect(stderr).toBe("");
  return { ...JSON.parse(stdout), output: readFileSync(path.join(folder, "o.log"), "utf8") };
}

function commandOf(script: string, folder: string) {
  const base = path.join(folder, "calls", "1.1.1");
  const env = { PATH: process.env.PATH ?? "", HOME: folder };
  return {
    base,
    outputFile: path.join(folder, "o.log"),
    script,
    cwd: folder,
    env,
    timeoutMs: 20_000,
    silenceMs: 20_000,
  };
}

const users: [string, (script: string) => Promise<Ended> | Ended][] = [["this user", run]];
if (process.getuid?.() === 0) users.push(["another user than root", runAsOther]);

describe.each(users)("limits of a command of %s", (_user, runIt) => {
  test("what needs more memory is ended, and that is said", async () => {
    const { output } = await runIt(`${allocate}; echo shell $?`);
    expect(output).toContain("used more than 200000000 bytes of memory");
    expect(output).not.toContain("it fits");
  });

  test("no more processes are made than allowed, and the command ends like any other", async () => {
    const many = "sh -c 'for i in $(seq 100); do sleep 1 & done; echo all started'; echo the shell goes on";
    const { output } = await runIt(many);
    expect(output).toContain("Cannot fork");
    expect(output).toContain("the shell goes on");
    expect(output).not.toContain("all started\n");
  });

  test("a fork bomb ends within its limit", async () => {
    const { output } = await runIt("sh -c 'bomb() { bomb & bomb & wait; }; bomb'; echo still here");
    expect(output).toContain("Cannot fork");
    expect(output).toContain("still here");
  });

  test("no file grows beyond its limit", async () => {
    const { output } = await runIt("head -c 9000000 /dev/zero > big; echo $?; stat -c %s big");
    expect(output).toContain("153\n2000000\n");
  });

  test("Node's fetch works within them", async () => {
    const script = `node -e 'require("http").createServer((q, s) => s.end("fine")).listen(0, "127.0.0.1", async function () {
      console.log(await (await fetch("http://127.0.0.1:" + this.address().port)).text()); process.exit() })'`;
    expect(await runIt(script)).toMatchObject({ exitCode: 0, output: "fine\n" });
  });
});

test("a command uses as many processors as it may", async () => {
  expect((await run("nproc", { cpus: 1 })).output).toBe("1\n");
});

const hasGroups = process.getuid?.() === 0 && existsSync("/sys/fs/cgroup/pids");

describe.runIf(hasGroups)("control groups", () => {
  const groupsOf = (base: string) => {
    const text = readFileSync(`${base}.limits`, "utf8");
    return (/^groups='(.*)'$/m.exec(text)?.[1] ?? "").split(" ");
  };

  test("what gives up its process group and its tag is ended with the command, and the groups are gone", async () => {
    const seconds = `300.${process.pid}${Math.random().toString().slice(2, 8)}`;
    const command = commandOf(`env -i setsid sleep ${seconds} & sleep 0.1; echo x`, temporaryFolder());
    const environment = localEnvironment({ limits });
    await environment.start(command);
    await environment.wait(command, never);
    expect(processesWith(seconds)).toEqual([]);
    expect(groupsOf(command.base).filter((group) => existsSync(group))).toEqual([]);
  });

  test("kill ends what is in them and removes them", async () => {
    const command = commandOf("env -i setsid sleep 300 & sleep 300", temporaryFolder());
    const environment = localEnvironment({ limits });
    await environment.start(command);
    await environment.kill(command);
    const groups = groupsOf(command.base);
    expect(groups.length).toBe(2);
    expect(groups.filter((group) => existsSync(group))).toEqual([]);
  });
});
