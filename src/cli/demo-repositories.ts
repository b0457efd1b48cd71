import { appendFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { execa } from "execa";
import type { Model } from "../model/model.ts";
import { call, type ScriptedReply, say, scriptedModel } from "../model/scripted.ts";

/** A small project with one mistake, the test that shows it, and the edit that mends it. */
interface Project {
  name: string;
  code: string;
  test: string;
  wrong: string;
  right: string;
}

const projects: Project[] = [
  {
    name: "sum",
    code: "export const sum = (numbers) => numbers.reduce((total, each) => total + each, 1);\n",
    test: "assert.equal(sum([1, 2, 3]), 6);",
    wrong: "total + each, 1)",
    right: "total + each, 0)",
  },
  {
    name: "slug",
    code: 'export const slug = (title) => title.toLowerCase().replace(" ", "-");\n',
    test: 'assert.equal(slug("One Two Three"), "one-two-three");',
    wrong: '.replace(" ", "-")',
    right: '.replaceAll(" ", "-")',
  },
  {
    name: "median",
    code: "export const median = (numbers) => numbers.sort()[Math.floor(numbers.length / 2)];\n",
    test: "assert.equal(median([10, 9, 100]), 10);",
    wrong: "numbers.sort()",
    right: "numbers.toSorted((a, b) => a - b)",
  },
  {
    name: "leap",
    code: "export const leap = (year) => year % 4 === 0;\n",
    test: "assert.equal(leap(1900), false);\n  assert.equal(leap(2000), true);",
    wrong: "year % 4 === 0",
    right: "year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)",
  },
  {
    name: "clamp",
    code: "export const clamp = (value, low, high) => Math.max(high, Math.min(low, value));\n",
    test: "assert.equal(clamp(5, 0, 3), 3);",
    wrong: "Math.max(high, Math.min(low, value))",
    right: "Math.min(high, Math.max(low, value))",
  },
];

export const demoPrompt = (name: string) =>
  `The test of the project "${name}" fails. Make it pass by changing index.js.`;

/** Makes the repositories in `folder`; gives their paths by name. */
export async function makeRepositories(folder: string): Promise<{ name: string; path: string }[]> {
  return Promise.all(
    projects.map(async ({ name, code, test }) => {
      const repository = path.join(folder, name);
      await mkdir(repository, { recursive: true });
      await writeFile(path.join(repository, "package.json"), `${JSON.stringify({ name, type: "module" })}\n`);
      await writeFile(path.join(repository, "index.js"), code);
      await writeFile(path.join(repository, "index.test.js"), testFile(name, test));
      const git = (...words: string[]) =>
        execa("git", ["-c", "user.name=demo", "-c", "user.email=demo@localhost", ...words], {
          cwd: repository,
        });
      await git("init", "--quiet", "--initial-branch=main");
      await git("add", ".");
      await git("commit", "--quiet", "--message", `A ${name} with a mistake`);
      return { name, path: repository };
    }),
  );
}

function testFile(name: string, assertion: string): string {
  return `import assert from "node:assert/strict";\nimport { test } from "node:test";\nimport { ${name} } from "./index.js";\n\ntest("${name}", () => {\n  ${assertion}\n});\n`;
}

/** What the demo's model writes down of each request, and its commands of each run: the evidence that nothing is done twice. */
export interface Evidence {
  requests: string;
  effects: string;
}

/** A model whose replies depend on the messages alone: which project, and how many replies there were. */
export function demoModel({ requests, effects }: Evidence): Model {
  return scriptedModel(({ messages }) => {
    const task = messages.find((message) => message.role === "user")?.content;
    const project = projects.find(
      ({ name }) => typeof task === "string" && task.startsWith(demoPrompt(name)),
    );
    if (!project) return say("This model only knows the projects of the demo.");
    const step = messages.filter((message) => message.role === "assistant").length + 1;
    appendFileSync(requests, `${project.name} ${step}\n`);
    return { ...replyAt(project, step, effects), delayMs: 150 };
  });
}

function replyAt({ name, wrong, right }: Project, step: number, effects: string): ScriptedReply {
  const mark = `echo "${name} ${step}" >> '${effects}'`;
  const replies: ScriptedReply[] = [
    {
      ...call("bash", { command: `${mark}; node --test; sleep 0.4` }),
      text: "First I run the test to see how it fails.",
    },
    { ...call("read_file", { path: "index.js" }), text: "Now the code." },
    {
      ...call("edit_file", { path: "index.js", oldText: wrong, newText: right }),
      text: `\`${wrong}\` is the mistake.`,
    },
    { ...call("bash", { command: `${mark}; sleep 0.4; node --test` }), text: "Does the test pass now?" },
    { ...call("bash", { command: `${mark}; git diff --stat` }), text: "A last look at the change." },
    say(`Fixed ${name}: \`${wrong}\` is now \`${right}\` in index.js. The test passes.`),
  ];
  return replies[step - 1] ?? say("Done.");
}
