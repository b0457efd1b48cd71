import { cpSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { z } from "zod";
import { ConfigError, RecoverableError } from "../src/errors.ts";
import { importUserModule, loadTools } from "../src/modules.ts";
import { temporaryFolder } from "./helpers/temporary-folder.ts";

const tool = (name: string) =>
  `{ name: "${name}", description: "d", parameters: {}, class: "pure", parse: (v) => v, run: async () => "" }`;

const toolNames = async (folder: string, ...files: string[]) =>
  (await loadTools(files.map((file) => path.join(folder, file)))).map(({ name }) => name);

it("a TypeScript module in a user's folder imports this very library", async () => {
  const folder = temporaryFolder({
    "thrower.ts": [
      'import { RecoverableError, type Config } from "pawl";',
      'import { helper, Shape } from "./helper.ts";',
      "export const error: Error = new RecoverableError(helper(1) satisfies string);",
      "export const about = (config: Config): Shape => ({ model: config.model });",
    ].join("\n"),
    "helper.ts":
      "export interface Shape { model: string | null }\nexport const helper = (n: number): string => 'n' + n;",
  });
  const { error } = await importUserModule(path.join(folder, "thrower.ts"));
  expect(error).toBeInstanceOf(RecoverableError);
  expect(error).toMatchObject({ message: "n1" });
});

it.each([
  ["a.mjs", 'import { RecoverableError } from "pawl"; export default RecoverableError;'],
  ["a.cjs", 'const { RecoverableError } = require("pawl"); exports.default = RecoverableError;'],
  ["a.js", 'import { RecoverableError } from "pawl"; export default RecoverableError;'],
])("%s imports it too", async (name, content) => {
  const folder = temporaryFolder({ [name]: content });
  expect((await importUserModule(path.join(folder, name))).default).toBe(RecoverableError);
});

const weather = (zod: string) =>
  `import { defineTool } from "pawl"; import { z } from "${zod}";
  export default defineTool({ name: "weather", description: "d", class: "pure",
    parameters: z.object({ city: z.string().default("Oslo") }), run: async ({ city }) => "Sunny in " + city });`;

const common = weather("zod").replaceAll(
  /import (\{ \w+ \}) from ("\w+");/g,
  (_, names, from) => `const ${names} = require(${from});`,
);

it.each([
  ["a.ts", weather("zod").replace("({ city })", "({ city }: { city: string })")],
  ["a.mjs", weather("zod")],
  ["a.js", weather("zod/v4")],
  ["a.js", weather("zod").replace("{ z }", "* as z")],
  ["a.cjs", common.replace("export default", "module.exports =")],
])("a tool in %s has zod in a folder where nothing is installed", async (name, content) => {
  const folder = temporaryFolder({ [name]: content });
  const [made] = await loadTools([path.join(folder, name)]);
  expect(made?.parameters).toMatchObject({ properties: { city: { type: "string" } } });
  expect(made?.parse({})).toEqual({ city: "Oslo" });
  expect(() => made?.parse({ city: 1 })).toThrow(RecoverableError);
});

it("a tool with another copy of zod, installed beside it, is a tool all the same", async () => {
  const folder = temporaryFolder({ "a.ts": weather("zod"), "which.ts": 'export * from "zod";' });
  const own = path.join(folder, "node_modules", "zod");
  cpSync(path.join(import.meta.dirname, "../node_modules/zod"), own, { recursive: true });
  expect((await importUserModule(path.join(folder, "which.ts"))).ZodObject).not.toBe(z.ZodObject);
  const [made] = await loadTools([path.join(folder, "a.ts")]);
  expect(made?.parameters).toMatchObject({ properties: { city: { type: "string" } } });
  expect(made?.parse({ city: "Rome" })).toEqual({ city: "Rome" });
  expect(() => made?.parse({ city: 1 })).toThrow(/city: expected string, got number 1/);
});

it("JSON is its own default export", async () => {
  const folder = temporaryFolder({ "a.json": '{"x": 1}' });
  expect((await importUserModule(path.join(folder, "a.json"))).default).toEqual({ x: 1 });
});

it("a module that is missing, or fails, is a configuration error naming the file", async () => {
  const folder = temporaryFolder({
    "fails.ts": 'throw new Error("no luck");',
    "bad.ts": "export const x = ;",
  });
  const load = (name: string) => importUserModule(path.join(folder, name));
  await expect(load("none.ts")).rejects.toThrow(ConfigError);
  await expect(load("none.ts")).rejects.toThrow(/none\.ts: expected a module, got no such file/);
  await expect(load("fails.ts")).rejects.toThrow(/fails\.ts: cannot be loaded: no luck/);
  await expect(load("bad.ts")).rejects.toThrow(/bad\.ts: cannot be loaded/);
});

it("tools come from default exports, named exports, lists and CommonJS", async () => {
  const folder = temporaryFolder({
    "default.ts": `export default ${tool("a").replace("(v)", "(v: unknown)")};`,
    "named.mjs": `export const b = ${tool("b")}; export const unit = "C"; export function help() {}\nexport default b;`,
    "list.mjs": `export default [${tool("c")}, ${tool("d")}];`,
    "common.cjs": `module.exports = { e: ${tool("e")} };`,
    "single.cjs": `module.exports = ${tool("f")};`,
  });
  const names = await toolNames(folder, "default.ts", "named.mjs", "list.mjs", "common.cjs", "single.cjs");
  expect(names).toEqual(["a", "b", "c", "d", "e", "f"]);
});

it("a module without a tool is refused with what was found", async () => {
  const folder = temporaryFolder({
    "none.mjs": "export default () => 1; export const n = 5;",
    "empty.mjs": "",
  });
  await expect(toolNames(folder, "none.mjs")).rejects.toThrow(ConfigError);
  await expect(toolNames(folder, "none.mjs")).rejects.toThrow(
    /none\.mjs: expected a tool made by defineTool.*got default \(a function\), n \(5\)/,
  );
  await expect(toolNames(folder, "empty.mjs")).rejects.toThrow(/empty\.mjs: expected a tool/);
});

it("half a tool is refused beside whole ones", async () => {
  const folder = temporaryFolder({
    "half.mjs": `export const whole = ${tool("a")}; export const half = { name: "h", description: "d", run() {} };`,
    "list.mjs": `export default [${tool("a")}, 5];`,
  });
  await expect(toolNames(folder, "half.mjs")).rejects.toThrow(
    /half\.mjs: expected export "half" to be a tool.*got an object without parameters, parse/,
  );
  await expect(toolNames(folder, "list.mjs")).rejects.toThrow(/list\.mjs: expected export "default".*got 5/);
});

it("two tools of one name are refused naming both files", async () => {
  const folder = temporaryFolder({
    "one.mjs": `export default ${tool("a")};`,
    "two.mjs": `export default ${tool("a")};`,
  });
  await expect(toolNames(folder, "one.mjs", "two.mjs")).rejects.toThrow(/two\.mjs: .*"a" again.*one\.mjs/);
});
