import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import Database from "better-sqlite3";
import { onTestFinished } from "vitest";
import { type ModelServer, startModelServer } from "./model-server.ts";
import { type PawlProcess, processesOf, runPawl, startPawl } from "./pawl-process.ts";
import { temporaryFolder } from "./temporary-folder.ts";
import { waitUntil } from "./wait-until.ts";

type Body = Parameters<Parameters<typeof startModelServer>[0]>[0];
type Reply = Awaited<ReturnType<Parameters<typeof startModelServer>[0]>>;

/** A data directory, a repository and a model: what a crash test plays in. */
export interface Scenario {
  folder: string;
  repo: string;
  env: Record<string, string>;
  server: ModelServer;
  /** Each command of a task writes its mark here, so that a second run of it shows. */
  effects(): string[];
  enqueue(keys: string[], more?: string[]): Promise<void>;
  worker(options?: { args?: string[]; env?: Record<string, string> }): PawlProcess;
  /** Runs a command of pawl to its end and gives its JSON documents. */
  json(...args: string[]): Promise<Record<string, unknown>[]>;
  database(): Database.Database;
}

/** The mark of a command: `<key>-<number>`. Marks in the conversation tell the model how far it is. */
export const markOf = (key: string, number: number) => `mark-${key}-${number}`;

/** Says what to answer when the run `key` has done `done` marks. */
export type Story = (
  key: string,
  done: number,
  run: (number: number, more?: string) => { name: string; arguments: { command: string } },
  messages?: Body["messages"],
) => Reply;

/** Whether a request asks for the record of older messages, not for a step. */
export const isSummaryRequest = ({ messages }: { messages: { content?: unknown }[] }) =>
  String(messages[0]?.content).startsWith("You write the record");

export async function createScenario(
  story: Story,
  options: { config?: Record<string, unknown>; env?: Record<string, string>; main?: string } = {},
): Promise<Scenario> {
  const folder = temporaryFolder({ "pawl.config.json": JSON.stringify(options.config ?? {}) });
  const repo = path.join(folder, "source");
  makeRepository(repo);
  const effectsFile = path.join(folder, "effects.log");
  const server = await startModelServer((body) => answer(body, story, effectsFile));
  const home = path.join(folder, "data");
  const env = { PAWL_HOME: home, OPENAI_BASE_URL: server.url, OPENAI_MODEL: "m", ...options.env };
  onTestFinished(async () => {
    await server.close();
    // Workers are ended by now; what still runs of their commands would be a leak.
    await waitUntil(() => processesOf(home).length === 0, {
      timeoutMs: 10_000,
      what: `nothing of ${home} runs`,
    });
  });
  const at = { cwd: folder, env, main: options.main };
  return {
    folder,
    repo,
    env,
    server,
    effects: () =>
      existsSync(effectsFile) ? readFileSync(effectsFile, "utf8").split("\n").filter(Boolean) : [],
    async enqueue(keys, more = []) {
      const lines = keys.map((key) => JSON.stringify({ prompt: `Do the work of KEY=${key}.`, repo, key }));
      writeFileSync(path.join(folder, "tasks.jsonl"), lines.join("\n"));
      const result = await runPawl(["enqueue", "--file", "tasks.jsonl", ...more], at);
      if (result.code !== 0) throw new Error(result.stderr);
    },
    worker: ({ args = ["--drain"], env: own = {} } = {}) =>
      startPawl(["worker", ...args], { ...at, env: { ...env, ...own } }),
    async json(...args) {
      const { stdout, stderr, code } = await runPawl([...args, "--json"], at);
      if (code !== 0) throw new Error(`pawl ${args.join(" ")}: ${stderr}`);
      return stdout
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line) as Record<string, unknown>);
    },
    database() {
      const database = new Database(path.join(home, "pawl.db"));
      onTestFinished(() => void database.close());
      return database;
    },
  };
}

function makeRepository(repo: string): void {
  mkdirSync(repo);
  writeFileSync(path.join(repo, "a.txt"), "one\n");
  const git = (...args: string[]) =>
    execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@localhost", ...args], { cwd: repo });
  git("init", "--quiet", "--initial-branch=main");
  git("add", ".");
  git("commit", "--quiet", "--message", "base");
}

/** The reply depends on the messages alone, so that a resumed run is answered as an undisturbed one. */
function answer(body: Body, story: Story, effectsFile: string): Reply {
  const text = JSON.stringify(body.messages);
  const key = /KEY=([\w]+)/.exec(text)?.[1] ?? "";
  const marks = [...text.matchAll(new RegExp(`mark-${key}-(\\d+)`, "g"))].map((match) => Number(match[1]));
  const done = Math.max(0, ...marks);
  if (isSummaryRequest(body))
    return { content: `## Done\n${markOf(key, done)}\n## State\nfine\n## Findings\nnone\n## Open\nnone` };
  const run = (number: number, more = "true") => ({
    name: "bash",
    arguments: { command: `echo ${markOf(key, number)} | tee -a '${effectsFile}'; ${more}` },
  });
  return story(key, done, run, body.messages);
}
