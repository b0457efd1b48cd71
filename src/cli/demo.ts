import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { openPawl, type Pawl } from "../pawl.ts";
import type { RunReport } from "../report/run-view.ts";
import { clip, flat } from "../report/text.ts";
import { readTimeline, type TimelineCursor } from "../report/timeline.ts";
import { demoPrompt, type Evidence, makeRepositories } from "./demo-repositories.ts";
import { paint, print, table } from "./output.ts";

const pollMs = 20;
/** The whole of it takes a few seconds; something is wrong if it takes longer than this. */
const limitMs = 60_000;
/** The worker is killed when this many runs are in the middle of a command of this step or a later one. */
const killAt = { runs: 3, step: 4 };
/** Columns before what a run does: its time and name. */
const describeAt = 24;
const defaultColumns = 80;

interface Demo {
  pawl: Pawl;
  folder: string;
  evidence: Evidence;
  runs: { id: string; name: string; cursor: TimelineCursor }[];
}

/**
 * `pawl demo`: a batch over five repositories; one worker is killed midway, another goes on. With `--break`: a model that
 * makes a mistake, is told and recovers.
 */
export async function demo(options: { keep?: boolean; break?: string }): Promise<void> {
  const broken = options.break === undefined ? undefined : await import("./demo-break.ts");
  const mistake = broken?.mistakeOf(options.break);
  const folder = await mkdtemp(path.join(os.tmpdir(), "pawl-demo-"));
  try {
    const isProven = broken && mistake ? await broken.playMistake(folder, mistake) : await play(folder);
    if (options.keep) print(`\nkept: ${folder} (look around there with pawl list, show, logs, diff)`);
    process.exitCode = isProven ? 0 : 1;
  } finally {
    if (!options.keep) await rm(folder, { recursive: true, force: true });
  }
}

async function play(folder: string): Promise<boolean> {
  const env = { ...process.env, PAWL_HOME: path.join(folder, ".pawl"), PAWL_QUEUE: "embedded" };
  const pawl = await openPawl({ cwd: folder, env });
  try {
    const demo = await setUp(pawl, folder);
    print(`${paint("bold", "1.")} a worker takes the ${demo.runs.length} tasks of the batch`);
    const first = startWorker(demo, env);
    await follow(demo, () => areInCommand(demo));
    first.kill("SIGKILL");
    await first.catch(() => {});
    const kept = await Promise.all(demo.runs.map(async ({ id }) => (await pawl.getRun(id)).steps));
    print(
      `${paint("bold", "2.")} ${paint("red", "kill -9")} ${first.pid} in the middle of commands; another worker starts`,
    );
    const second = startWorker(demo, env);
    await follow(demo, async () => second.exitCode !== null || (await allEnded(demo)));
    await second;
    return await conclude(demo, kept);
  } finally {
    await pawl.close();
  }
}

async function setUp(pawl: Pawl, folder: string): Promise<Demo> {
  const evidence = { requests: path.join(folder, "requests.log"), effects: path.join(folder, "effects.log") };
  await Promise.all(Object.values(evidence).map((file) => writeFile(file, "")));
  const repositories = await makeRepositories(path.join(folder, "repositories"));
  const tasks = repositories.map(({ name, path: repo }) => ({
    prompt: demoPrompt(name),
    repo,
    key: name,
    batch: "demo",
  }));
  const created = await pawl.enqueue(tasks);
  const runs = created.map(({ id, key }) => ({ id, name: key ?? id, cursor: { seq: 0, eventId: 0 } }));
  return { pawl, folder, evidence, runs };
}

function startWorker({ folder, evidence }: Demo, env: NodeJS.ProcessEnv) {
  const script = fileURLToPath(new URL("./demo-worker.js", import.meta.url));
  return execa(process.execPath, [script, folder, evidence.requests, evidence.effects], {
    env,
    stdin: "ignore",
    stdout: "ignore",
    stderr: "inherit",
  });
}

/** Prints what the runs do until `isDone`. */
async function follow(demo: Demo, isDone: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + limitMs;
  for (;;) {
    const done = await isDone();
    for (const run of demo.runs) {
      for (const entry of await readTimeline(demo.pawl.store, run.id, run.cursor)) {
        const line = describe(entry.kind, entry.data as Record<string, unknown>);
        if (line) print(`   ${paint("dim", entry.at.slice(11, 23))} ${run.name.padEnd(7)} ${line}`);
      }
    }
    if (done) return;
    if (performance.now() > deadline) throw new Error(`the demo did not end within ${limitMs / 1000} s`);
    await sleep(pollMs);
  }
}

function describe(kind: string, data: Record<string, unknown>): string | undefined {
  const calls = data.tool_calls as { function: { name: string; arguments: string } }[] | undefined;
  if (kind === "reply" && calls) {
    return calls
      .map(({ function: { name, arguments: input } }) =>
        paint("cyan", clip(flat(`→ ${name} ${readable(input)}`), lineWidth() - describeAt)),
      )
      .join(" ");
  }
  if (kind === "owner_lost") return paint("red", "its worker is dead");
  if (kind === "claimed" && Number(data.steps) > 0) return paint("green", `resumed after step ${data.steps}`);
  if (kind === "finished") return paint("green", String(data.status));
  return undefined;
}

function lineWidth(): number {
  return Math.max(process.stdout.columns || defaultColumns, 2 * describeAt);
}

/** The command or path, without the mark that the demo's commands begin with. */
function readable(input: string): string {
  return String(Object.values(JSON.parse(input))[0]).replace(/^echo .*?; /, "");
}

async function areInCommand({ pawl, runs }: Demo): Promise<boolean> {
  const tails = await Promise.all(runs.map(({ id }) => pawl.store.loadTail(id, null)));
  const isInside = (call: { state: string; step: number }) =>
    call.state === "started" && call.step >= killAt.step;
  return tails.filter((tail) => tail.openCalls.some(isInside)).length >= killAt.runs;
}

async function allEnded({ pawl, runs }: Demo): Promise<boolean> {
  const reports = await Promise.all(runs.map(({ id }) => pawl.getRun(id)));
  return reports.every((report) => report.finishedAt !== null);
}

async function conclude(demo: Demo, kept: number[]): Promise<boolean> {
  const reports = await Promise.all(demo.runs.map(({ id }) => demo.pawl.getRun(id)));
  const tests = await Promise.all(reports.map(testPasses));
  print(`\n${paint("bold", "3.")} the batch`);
  const rows = reports.map((report, index) => [
    demo.runs[index]?.name ?? "",
    report.status,
    String(report.steps),
    String(kept[index]),
    (report.changedFiles ?? []).join(", "),
    tests[index] ? "passes" : "fails",
  ]);
  const headings = ["REPOSITORY", "STATUS", "STEPS", "KEPT AT THE KILL", "CHANGED", "ITS TEST"];
  for (const line of table(headings, rows)) print(`   ${line}`);
  const isProven = prove(demo, kept);
  return isProven && tests.every(Boolean) && reports.every((report) => report.status === "succeeded");
}

/** Counts what the model and the commands themselves wrote down, outside of pawl's database. */
function prove({ runs, evidence }: Demo, kept: number[]): boolean {
  const requests = readFileSync(evidence.requests, "utf8").split("\n").filter(Boolean);
  const effects = readFileSync(evidence.effects, "utf8").split("\n").filter(Boolean);
  const askedAgain = runs.flatMap(({ name }, index) =>
    Array.from({ length: kept[index] ?? 0 }, (_, step) => `${name} ${step + 1}`).filter(
      (mark) => count(requests, mark) > 1,
    ),
  );
  const repeated = requests.length - new Set(requests).size;
  const ranTwice = [...new Set(effects)].filter((mark) => count(effects, mark) > 1);
  const keptReplies = kept.reduce((sum, steps) => sum + steps, 0);
  print(`\n${paint("bold", "4.")} the proof, from what model and commands wrote down themselves`);
  print(`   ${askedAgain.length} of ${keptReplies} replies committed before the kill were asked for again`);
  print(`   ${repeated} of ${requests.length} requests were repeated: open when the worker died`);
  print(`   ${ranTwice.length} of ${effects.length} shell commands ran twice`);
  return askedAgain.length === 0 && ranTwice.length === 0;
}

function count(lines: string[], line: string): number {
  return lines.filter((each) => each === line).length;
}

async function testPasses({ workspace }: RunReport): Promise<boolean> {
  if (workspace.path === null) return false;
  // Inside of a test run of Node's own, the child would report to its parent instead of by its exit code.
  const env = { NODE_TEST_CONTEXT: undefined };
  const result = await execa(process.execPath, ["--test"], { cwd: workspace.path, env, reject: false });
  return result.exitCode === 0;
}
