import { expect, test } from "vitest";
import { commandLine } from "../helpers/command-line.ts";

const weather = `import { defineTool } from "pawl"; import { z } from "zod";
export default defineTool({ name: "weather", description: "The weather\\nnow.", class: "pure",
  parameters: z.object({ city: z.string(), days: z.number().optional() }), run: async () => "" });
export const bash = defineTool({ name: "bash", description: "My own.", parameters: z.object({}), run: async () => "" });`;

function project() {
  return commandLine({
    files: { "weather.mjs": weather, "pawl.config.json": '{ "tools": ["./weather.mjs"] }' },
  });
}

interface Listed {
  tools: {
    name: string;
    class: string;
    source: string;
    description: string;
    parameters: { required: string[] };
  }[];
}

test("pawl tools lists what a run would be offered, with class, parameters and where each comes from", async () => {
  const { pawl, json } = project();
  const { stdout, stderr, code } = await pawl(["tools"]);
  expect({ stderr, code }).toEqual({ stderr: "", code: 0 });
  expect(stdout).toContain("weather {city: string, days?: number}  pure, module\n  The weather now.");
  expect(stdout).toContain("bash {}  unsafe, module\n  My own.");
  expect(stdout).toContain("write_file {path: string, content: string}  convergent, built-in\n");
  const [listed] = (await json(["tools"])) as unknown as [Listed];
  expect(listed.tools.map(({ name, source }) => `${name} ${source}`)).toEqual([
    "read_file built-in",
    "write_file built-in",
    "edit_file built-in",
    "list_files built-in",
    "bash module",
    "weather module",
  ]);
  expect(listed.tools.at(5)).toMatchObject({ class: "pure", parameters: { required: ["city"] } });
});

test("with names it lists those that a task of these names would get, and refuses others as the task would be", async () => {
  const { pawl } = project();
  const { stdout } = await pawl(["tools", "--tools", "weather, bash"]);
  expect(stdout.match(/^\w+/gm)).toEqual(["weather", "bash"]);
  expect((await pawl(["tools", "--protocol", "bash-block"])).stdout.match(/^\w+/gm)).toEqual(["bash"]);
  const wrong = await pawl(["tools", "--tools", "weathr"]);
  expect(wrong.code).toBe(2);
  expect(wrong.stderr).toContain('got weathr (did you mean "weather"?)');
});

test("a module that cannot be loaded is one line that names it", async () => {
  const { pawl } = commandLine({ files: { "pawl.config.json": '{ "tools": ["./gone.mjs"] }' } });
  const { stderr, code } = await pawl(["tools"]);
  expect(code).toBe(2);
  expect(stderr).toMatch(/^pawl: .*gone\.mjs: expected a module, got no such file$/);
});
