import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { RunAborted } from "../../src/abort.ts";
import { LeaseLostError, RecoverableError, TerminatingError } from "../../src/errors.ts";
import { defineTool } from "../../src/tools/define.ts";
import { executeCall, recoverCall } from "../../src/tools/execute.ts";
import type { Tool, ToolClass } from "../../src/tools/tool.ts";
import { toolContext } from "../helpers/tool-context.ts";

function toolOf(
  run: (input: { text: string }) => unknown,
  name = "echo",
  toolClass: ToolClass = "unsafe",
): Tool {
  const parameters = z.object({ text: z.string().default("") });
  return defineTool({
    name,
    description: "",
    parameters,
    class: toolClass,
    run: run as () => Promise<string>,
  });
}

const echo = toolOf(async ({ text }) => text);

function call(tool: Tool, argumentsText: string, changes = {}) {
  return executeCall({ tools: [tool], name: "echo", argumentsText, context: toolContext(), ...changes });
}

test("a tool whose class is none of the four is refused, and never run again where one came all the same", async () => {
  const odd = "Unsafe" as ToolClass;
  expect(() => toolOf(async () => "", "pay", odd)).toThrow(/expected a class that is pure, convergent/);
  const tools = [{ ...echo, class: odd }];
  const call = { tools, name: "echo", argumentsText: "{}", context: toolContext(), startedEpoch: 1 };
  expect(await recoverCall(call)).toMatchObject({ kind: "unknown" });
});

describe("names", () => {
  test.each(["delete_everything", "Echo", "ech", "echo2", "functions.echo"])(
    "%j is no tool",
    async (name) => {
      const output = await call(echo, "{}", { name });
      expect(output).toMatchObject({
        isError: true,
        content: expect.stringContaining("the tools are: echo"),
      });
    },
  );
});

describe("arguments", () => {
  test("nothing at all is an empty object", async () => {
    expect(await call(echo, "")).toEqual({ content: "(no output)" });
  });

  test("encoded twice they are decoded, a string field holding JSON is not", async () => {
    expect(await call(echo, JSON.stringify(JSON.stringify({ text: "hi" })))).toEqual({ content: "hi" });
    expect(await call(echo, JSON.stringify({ text: '{"a":1}' }))).toEqual({ content: '{"a":1}' });
    expect(await call(echo, JSON.stringify({ text: "42" }))).toEqual({ content: "42" });
  });

  test.each(['{"text": "unfinished', "[1]", "42", '"""', "null", "{} trailing"])(
    "%s is an error result",
    async (text) => {
      expect(await call(echo, text)).toMatchObject({
        isError: true,
        content: expect.stringContaining("JSON object"),
      });
    },
  );

  test("encoding is undone a bounded number of times", async () => {
    let text = "{}";
    for (let depth = 0; depth < 6; depth += 1) text = JSON.stringify(text);
    expect(await call(echo, text)).toMatchObject({ isError: true });
  });
});

describe("results", () => {
  test("whatever a tool throws is an error result", async () => {
    const thrown = [new RecoverableError("try x"), new Error("boom"), "text"];
    for (const reason of thrown) {
      const tool = toolOf(() => Promise.reject(reason));
      const content = expect.stringContaining(reason instanceof Error ? reason.message : reason);
      expect(await call(tool, "{}")).toMatchObject({ isError: true, content });
    }
    const synchronous = toolOf(() => {
      throw new Error("at once");
    });
    expect(await call(synchronous, "{}")).toMatchObject({ isError: true });
  });

  test("a terminating error ends the run, also one of another copy of the package", async () => {
    const foreign = Object.assign(new Error("stop here"), { name: "TerminatingError" });
    for (const reason of [new TerminatingError("stop here"), foreign]) {
      const tool = toolOf(() => Promise.reject(reason));
      await expect(call(tool, "{}")).rejects.toThrow(new TerminatingError("stop here"));
      await expect(call(tool, "{}")).rejects.toBeInstanceOf(TerminatingError);
    }
  });

  test("a lost lease is not answered", async () => {
    await expect(
      call(
        toolOf(() => Promise.reject(new LeaseLostError("gone"))),
        "{}",
      ),
    ).rejects.toThrow(LeaseLostError);
  });

  test("objects become JSON and text is made storable", async () => {
    expect(
      (
        await call(
          toolOf(async () => ({ degrees: 7 })),
          "{}",
        )
      ).content,
    ).toBe('{\n  "degrees": 7\n}');
    expect(
      (
        await call(
          toolOf(async () => "a\0b\ud800c"),
          "{}",
        )
      ).content,
    ).toBe("ab\ufffdc");
    expect(
      (
        await call(
          toolOf(async () => undefined),
          "{}",
        )
      ).content,
    ).toBe("(no output)");
  });

  test("a long result is cut in the middle, without parting characters, and kept whole in a file", async () => {
    const whole = `head${"🔍".repeat(3_000)}tail`;
    const context = toolContext({ maxResultChars: 501 });
    const { content } = await call(
      toolOf(async () => whole),
      "{}",
      { context },
    );
    const file = path.join(context.outputs, "1.1.txt");
    expect(content.length).toBeLessThanOrEqual(501);
    expect(content).toMatch(
      /^head🔍.*characters, 0 lines left out; the whole result is in .*1\.1\.txt.*🔍tail$/su,
    );
    expect(content).not.toMatch(/\p{Surrogate}/u);
    expect(readFileSync(file, "utf8")).toBe(whole);
  });
});

describe("aborts", () => {
  test("an aborted call rejects with the reason and runs nothing", async () => {
    const reason = new RunAborted("shutdown");
    let hasRun = false;
    const tool = toolOf(async () => {
      hasRun = true;
    });
    const context = toolContext({ signal: AbortSignal.abort(reason) });
    await expect(call(tool, "{}", { context })).rejects.toBe(reason);
    expect(hasRun).toBe(false);
  });

  test("what a tool throws on abort becomes the reason", async () => {
    const controller = new AbortController();
    const reason = new RunAborted("lease_lost");
    const tool = toolOf(async () => {
      controller.abort(reason);
      throw new Error("fetch failed");
    });
    await expect(call(tool, "{}", { context: toolContext({ signal: controller.signal }) })).rejects.toBe(
      reason,
    );
  });
});

describe("recovery", () => {
  const recover = (tool: Tool) =>
    recoverCall({
      tools: [tool],
      name: "echo",
      argumentsText: "{}",
      context: toolContext(),
      startedEpoch: 1,
    });

  test.each(["pure", "convergent", "keyed"] as const)("a %s call runs again", async (toolClass) => {
    expect(await recover(toolOf(async () => "x", "echo", toolClass))).toEqual({ kind: "run" });
  });

  test("an unsafe call is never run again", async () => {
    expect(await recover(echo)).toMatchObject({ kind: "unknown", detail: expect.stringContaining("worker") });
  });

  test("the tool's own knowledge comes first, and where it fails the outcome is unknown", async () => {
    const done = {
      ...echo,
      recover: async () => ({ kind: "done" as const, output: { content: "as it was" } }),
    };
    expect(await recover(done)).toEqual({ kind: "done", output: { content: "as it was" } });
    const broken = { ...echo, recover: () => Promise.reject(new Error("no")) };
    expect(await recover(broken)).toEqual({ kind: "unknown", detail: "no" });
  });

  test("the outcome of a call whose tool is gone since is unknown", async () => {
    const context = toolContext();
    const options = { tools: [echo], name: "nope", argumentsText: "{}", context, startedEpoch: 1 };
    expect(await recoverCall(options)).toMatchObject({ kind: "unknown" });
    expect(existsSync(path.join(context.outputs, "1.1.txt"))).toBe(false);
  });
});
