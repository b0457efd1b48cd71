import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { execa } from "execa";
import { runPaths } from "../src/paths.ts";
import { prepareWorkspace } from "../src/workspace/prepare.ts";
import { snapshot } from "../src/workspace/snapshot.ts";

const files = 10_000;
const filesPerFolder = 100;
const rounds = 15;

/** What a step costs that changed nothing in a large workspace, against `git status` there: medians, taken in turn. */
export async function measureSnapshot(folder: string) {
  const repo = path.join(folder, "large");
  await makeRepository(repo);
  const data = path.join(folder, "data");
  const paths = {
    dataDir: data,
    database: path.join(data, "pawl.db"),
    repos: path.join(data, "repos"),
    workspaces: path.join(folder, "workspaces"),
  };
  const run = runPaths(paths, "bench");
  const workspace = await prepareWorkspace({ paths, run, repo, ref: null, dir: null });
  const times = { snapshot: [] as number[], status: [] as number[] };
  for (let round = 0; round < rounds; round += 1) {
    times.status.push(await timed(() => execa("git", ["status", "--porcelain"], { cwd: workspace.path })));
    times.snapshot.push(await timed(() => snapshot({ path: workspace.path, run })));
  }
  const taken = median(times.snapshot);
  const status = median(times.status);
  return [
    {
      name: "a snapshot of 10,000 unchanged files / git status",
      ratio: taken / status,
      bound: { atMost: 1.5 },
      detail: `${taken.toFixed(1)} against ${status.toFixed(1)} ms, medians of ${rounds}`,
    },
  ];
}

async function makeRepository(repo: string): Promise<void> {
  for (let at = 0; at < files / filesPerFolder; at += 1) {
    const folder = path.join(repo, `folder-${at}`);
    await mkdir(folder, { recursive: true });
    const names = Array.from({ length: filesPerFolder }, (_, n) => `file-${n}.txt`);
    await Promise.all(names.map((name) => writeFile(path.join(folder, name), `${at} ${name}\n`)));
  }
  const git = (...words: string[]) =>
    execa("git", ["-c", "user.name=bench", "-c", "user.email=bench@localhost", ...words], { cwd: repo });
  await git("init", "--quiet");
  await git("add", ".");
  await git("commit", "--quiet", "--message", "base");
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}
