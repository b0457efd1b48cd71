import { readdirSync } from "node:fs";
import path from "node:path";
import { processesOf } from "./pawl-process.ts";
import type { Scenario, Story } from "./scenario.ts";

/** Each step writes a file of its own and changes one that was there. */
export const story: Story = (_key, done, run) => {
  const next = done + 1;
  if (next > 3) return { content: "all done" };
  return { toolCalls: [run(next, `echo ${next} > file-${next}.txt; echo ${next} >> a.txt`)] };
};

export async function workspaceOf(scenario: Scenario, key: string): Promise<string> {
  const [run = {}] = await scenario.json("show", key);
  return (run.workspace as { path: string }).path;
}

/** What a folder holds beside its repository. */
export function visible(folder: string): string[] {
  return readdirSync(folder)
    .filter((name) => name !== ".git")
    .toSorted();
}

export const bodyOfLastRequest = (scenario: Scenario) =>
  JSON.stringify(scenario.server.requests.at(-1)?.messages);

/** Kills everything that runs for the scenario: workers, supervisors, commands. */
export function killAll(scenario: Scenario): void {
  for (const pid of processesOf(path.join(scenario.folder, "data"))) process.kill(pid, "SIGKILL");
}

export const kindsOfEvents = (scenario: Scenario) =>
  (scenario.database().prepare("SELECT kind FROM events ORDER BY id").all() as { kind: string }[]).map(
    ({ kind }) => kind,
  );
