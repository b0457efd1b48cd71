import { writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { startAgentServer } from "../helpers/agent-server.ts";
import { commandLine } from "../helpers/command-line.ts";
import { waitUntil } from "../helpers/wait-until.ts";

const broken = [{ error: { status: 400, message: "no such model" } }];

test("retry makes attempt 2 in a fresh workspace, which supersedes the first", async () => {
  const replies = { broken };
  const { env } = await startAgentServer(replies);
  const { pawl, json } = commandLine({ env });
  await pawl(["run", "broken", "--key", "k"]);
  const [first] = await json(["show", "k"]);
  const [retried] = await json(["retry", "k"]);
  expect(retried).toMatchObject({ id: first?.id, status: "queued", changed: true });
  replies.broken = [{ text: "Fine." }] as never;
  await pawl(["worker", "--drain"]);
  const [second] = await json(["show", "k"]);
  expect(second).toMatchObject({ id: retried?.retriedAs, attempt: 2, status: "succeeded", epoch: 1 });
  expect(second?.workspace).not.toEqual(first?.workspace);
  expect(await json(["list"])).toHaveLength(1);
  expect(await json(["show", String(first?.id)])).toMatchObject([{ attempt: 1, status: "failed" }]);
  const again = await pawl(["retry", String(first?.id)]);
  expect(again).toMatchObject({ code: 2, stderr: expect.stringContaining("superseded") });
});

test("retry can raise the limit that ended a run; the key still stands for the task as enqueued", async () => {
  const { env } = await startAgentServer({
    long: [{ tool: "list_files" }, { tool: "list_files" }, { text: "Done at last." }],
  });
  const { pawl, json } = commandLine({ env });
  const task = ["long", "--key", "k", "--max-steps", "2"];
  expect((await pawl(["run", ...task])).stderr).toContain("pawl retry");
  const wrong = await pawl(["retry", "k", "--max-steps", "no"]);
  expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining("--max-steps: expected") });
  await pawl(["retry", "k", "--max-steps", "5"]);
  await pawl(["worker", "--drain"]);
  expect(await json(["show", "k"])).toMatchObject([{ status: "succeeded", maxSteps: 5, attempt: 2 }]);
  expect(await json(["enqueue", ...task])).toMatchObject([{ created: false }]);
  expect(await json(["enqueue", ...task])).not.toMatchObject([{ changed: true }]);
});

test("retry asks the model that is configured now", async () => {
  const { url, requests } = await startAgentServer();
  const { pawl } = commandLine({ env: { OPENAI_BASE_URL: "http://127.0.0.1:1/v1", OPENAI_MODEL: "old" } });
  await pawl(["enqueue", "x", "--key", "k", "--time-limit-ms", "300"]);
  await pawl(["worker", "--drain"]);
  await pawl(["retry", "k", "--time-limit-ms", "60000"]);
  await pawl(["worker", "--drain"], { env: { OPENAI_BASE_URL: url, OPENAI_MODEL: "new" } });
  expect(requests.map(({ model }) => model)).toEqual(["new"]);
});

test("retry --batch takes what failed, with --class only what failed so", async () => {
  const { env } = await startAgentServer({ broken, loop: [{ tool: "list_files" }] });
  const { pawl, json } = commandLine({ env });
  for (const [prompt, ...more] of [["fine"], ["broken"], ["loop", "--max-steps", "1"]] as const) {
    await pawl(["enqueue", prompt, "--key", prompt, "--batch", "b", ...more]);
  }
  await pawl(["worker", "--drain"]);
  const attempts = async () =>
    Object.fromEntries((await json(["list", "--batch", "b"])).map(({ key, attempt }) => [key, attempt]));
  await pawl(["retry", "--batch", "b", "--class", "infra"]);
  expect(await attempts()).toEqual({ fine: 1, broken: 2, loop: 1 });
  await pawl(["retry", "--batch", "b"]);
  expect(await attempts()).toEqual({ fine: 1, broken: 2, loop: 2 });
  const unknown = await pawl(["retry", "--batch", "b", "--class", "infrastructure"]);
  expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining("success, agent, limit, infra") });
});

test("retry takes the flags of a task, its prompt and place aside", async () => {
  const { env, requests } = await startAgentServer();
  const { pawl, json, folder } = commandLine({ env, files: { "brief.md": "Be brief." } });
  await pawl(["enqueue", "x", "--key", "k", "--tools", "list_files", "--system-prompt", "brief.md"]);
  await pawl(["cancel", "k"]);
  writeFileSync(path.join(folder, "better.md"), "Be better.");
  const { stdout } = await pawl(["retry", "--help"]);
  const flags = [...stdout.matchAll(/^ {2}(--[a-z-]+)/gm)].map(([, flag]) => flag);
  const ofTask = [
    "priority",
    "max-steps",
    "time-limit-ms",
    "model",
    "tools",
    "system-prompt",
    "on-interrupt",
  ];
  expect(flags).toEqual(expect.arrayContaining(ofTask.map((name) => `--${name}`)));
  for (const flag of ["--key", "--repo", "--dir", "--ref", "--prompt"]) expect(flags).not.toContain(flag);
  const changes = ["--tools", "bash,read_file", "--system-prompt", "better.md", "--priority", "3"];
  expect((await pawl(["retry", "k", ...changes, "--on-interrupt", "rollback"])).code).toBe(0);
  expect((await pawl(["worker", "--drain"])).code).toBe(0);
  expect(await json(["show", "k"])).toMatchObject([{ status: "succeeded", attempt: 2 }]);
  const [request] = requests;
  expect(request?.messages[0]?.content).toContain("Be better.");
  expect(request?.tools?.map((tool) => tool.function.name)).toEqual(["bash", "read_file"]);
  for (const [wrong, said] of [
    [["--tools", "bsh"], 'got bsh (did you mean "bash"?)'],
    [["--system-prompt", "none.md"], "--system-prompt: expected a file that can be read"],
    [["--repo", "."], "unknown option '--repo'"],
  ] as const) {
    const { stderr, code } = await pawl(["retry", "k", ...wrong]);
    expect({ code, lines: stderr.split("\n").length }).toEqual({ code: 2, lines: 1 });
    expect(stderr).toContain(said);
  }
});

test("cancel of a batch that was just retried leaves its failures in status", async () => {
  const { env } = await startAgentServer({ broken });
  const { pawl, json } = commandLine({ env });
  for (const key of ["a", "b"]) await pawl(["enqueue", "broken", "--key", key, "--batch", "night"]);
  await pawl(["worker", "--drain"]);
  const before = await json(["status"]);
  expect(await json(["retry", "--batch", "night"])).toHaveLength(2);
  expect((await pawl(["cancel", "--batch", "night"])).stdout).toMatch(/cancelled; run \w{14} stands again$/m);
  expect(await json(["status"])).toEqual(before);
  expect(before).toMatchObject([{ total: 2, byReason: { model_error: 2 } }]);
  expect((await pawl(["status", "--exit-code"])).code).toBe(1);
  expect(await json(["retry", "--batch", "night"])).toHaveLength(2);
});

test("retry of several runs is all or none", async () => {
  const { env } = await startAgentServer();
  const { pawl, json } = commandLine({ env });
  await pawl(["run", "x", "--key", "ended"]);
  await pawl(["enqueue", "y", "--key", "queued"]);
  const { stderr, code } = await pawl(["retry", "ended", "queued"]);
  expect(code).toBe(2);
  expect(stderr).toMatch(/expected finished runs to retry, got \w+, which is queued/);
  expect(await json(["show", "ended"])).toMatchObject([{ attempt: 1 }]);
});

test("cancel, pause and resume change queued runs at once, by name and by batch", async () => {
  const { pawl, json } = commandLine();
  for (const key of ["a", "b", "c"]) await pawl(["enqueue", "x", "--key", key, "--batch", "night"]);
  expect((await pawl(["pause", "a"])).stdout).toMatch(/^\w{14} {2}a {2}waiting$/);
  expect(await json(["resume", "a"])).toMatchObject([{ status: "queued", changed: true }]);
  expect(await json(["cancel", "a", "a"])).toMatchObject([{ status: "cancelled", changed: true }]);
  expect(await json(["pause", "--batch", "night"])).toMatchObject([
    { status: "waiting" },
    { status: "waiting" },
  ]);
  expect(await json(["cancel", "a"])).toMatchObject([{ status: "cancelled", changed: false }]);
  expect(await json(["resume", "--batch", "night"])).toHaveLength(2);
  expect(await json(["cancel", "--batch", "night"])).toHaveLength(2);
  expect(await json(["status"])).toMatchObject([{ byStatus: { cancelled: 3 }, byReason: { cancelled: 3 } }]);
  expect((await pawl(["cancel", "--batch", "night"])).stderr).toBe("no run to cancel");
  const nothing = await pawl(["cancel"]);
  expect(nothing).toMatchObject({ code: 2, stderr: expect.stringContaining("expected runs or --batch") });
});

test("a running run is cancelled in the middle of a command, and paused after its step", async () => {
  const { env } = await startAgentServer({
    long: [{ tool: "bash", input: { command: "sleep 30" } }],
    short: [{ tool: "bash", input: { command: "until [ -e go ]; do sleep 0.1; done" } }, { text: "Fine." }],
  });
  const { pawl, json, start, folder } = commandLine({ env });
  await pawl(["enqueue", "long", "--key", "long"]);
  await pawl(["enqueue", "short", "--key", "short", "--dir", folder]);
  const worker = start(["worker", "--drain"]);
  await waitUntil(async () => (await json(["list"])).every(({ phase }) => phase === "acting"), {
    timeoutMs: 20_000,
    what: "both are in a command",
  });
  const startedAt = performance.now();
  expect((await pawl(["cancel", "long"])).stdout).toContain("cancel requested");
  await pawl(["pause", "short"]);
  writeFileSync(path.join(folder, "go"), "");
  expect((await worker).exitCode).toBe(0);
  expect(performance.now() - startedAt).toBeLessThan(15_000);
  expect(await json(["show", "long"])).toMatchObject([{ status: "cancelled", steps: 1 }]);
  expect(await json(["show", "short"])).toMatchObject([
    { status: "waiting", waiting: { kind: "paused" }, steps: 1 },
  ]);
  await pawl(["resume", "short"]);
  await pawl(["worker", "--drain"]);
  expect(await json(["show", "short"])).toMatchObject([{ status: "succeeded", steps: 2 }]);
});
