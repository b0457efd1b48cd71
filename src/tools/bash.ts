import { mkdir, stat } from "node:fs/promises";
import path from "node:path";
import { z } from "zod";
import { RunAborted } from "../abort.ts";
import type { Command, CommandResult } from "../environment/environment.ts";
import { RecoverableError } from "../errors.ts";
import { failpoint } from "../failpoint.ts";
import { untilRoom } from "../full-disk.ts";
import { readOutput } from "./command-output.ts";
import { describeResult } from "./command-result.ts";
import { displayPath } from "./confine.ts";
import { defineTool } from "./define.ts";
import { findInteractive } from "./interactive.ts";
import type { ToolContext, ToolOutput } from "./tool.ts";

/** A command may ask for more than the default time, up to this. */
const maxTimeoutMs = 600_000;
/** Room for what is said below an output. */
const footerChars = 600;

type Files = Pick<Command, "base" | "outputFile">;

export const bashTool = defineTool({
  name: "bash",
  description:
    "Run a bash command in the workspace. Each command has its own shell: cd, variables and functions do not last until the " +
    "next one; use workdir, or cd within the command. There is no terminal and no input, so nothing interactive works " +
    "(editors, pagers, prompts, REPLs). stdout and stderr come back together; a long output is cut in the middle and kept " +
    "whole in a file. Processes left in the background end with the command.",
  parameters: z.strictObject({
    command: z.string().min(1).describe("The script to run"),
    timeoutMs: z
      .number()
      .positive()
      .optional()
      .describe(`Time limit in milliseconds, at most ${maxTimeoutMs}`),
    workdir: z.string().optional().describe("Where to run it, relative to the workspace"),
  }),
  class: "unsafe",
  async run({ command, timeoutMs, workdir }, context) {
    const problem = findInteractive(command);
    if (problem !== undefined) throw new RecoverableError(`${problem}. Nothing was run`);
    const prepared = await prepareFolder(workdir, context);
    const files = filesOf(context, context.epoch);
    const limitMs = Math.min(timeoutMs ?? context.commandTimeoutMs, maxTimeoutMs);
    await context.environment.start({
      ...files,
      script: command,
      cwd: prepared.cwd,
      env: context.env,
      timeoutMs: limitMs,
      silenceMs: context.commandSilenceMs,
    });
    failpoint("command.started");
    const output = await finish(files, context, limitMs);
    failpoint("command.finished");
    return prepared.warning === ""
      ? output
      : { ...output, content: `${prepared.warning}\n${output.content}` };
  },
  async recover({ timeoutMs }, context, startedEpoch) {
    const { environment } = context;
    const files = filesOf(context, startedEpoch);
    // On a full disk nobody can say yet: to guess would leave a command behind that runs.
    const found = await untilRoom(() => environment.find(files), { signal: context.signal });
    const limitMs = Math.min(timeoutMs ?? context.commandTimeoutMs, maxTimeoutMs);
    switch (found.state) {
      case "not_started":
        return { kind: "not_started" };
      case "finished":
        return { kind: "done", output: await toOutput(found.result, context, limitMs) };
      case "running": {
        const output = await finish(files, context, limitMs);
        const now = context.signal.aborted ? null : await environment.find(files);
        // Its supervisor died while we waited: that it ended is known, how is not.
        if (now?.state === "lost")
          return { kind: "unknown", detail: await describeLost(files, context, found.startedAt) };
        return { kind: "done", output };
      }
      case "lost": {
        // Its supervisor is gone, but it may run still, and would disturb what comes next.
        await environment.kill(files);
        return { kind: "unknown", detail: await describeLost(files, context, found.startedAt) };
      }
      default:
        return found satisfies never;
    }
  },
});

function filesOf(context: ToolContext, epoch: number): Files {
  const name = `${context.callId}.${epoch}`;
  return { base: path.join(context.calls, name), outputFile: path.join(context.outputs, `${name}.log`) };
}

/** An agent can delete the folder it works in; then no command could run, not even one that repairs it. */
async function prepareFolder(
  workdir: string | undefined,
  context: ToolContext,
): Promise<{ cwd: string; warning: string }> {
  const cwd = path.resolve(context.workspace, workdir ?? ".");
  let warning = "";
  if ((await stat(context.workspace).catch(() => undefined)) === undefined) {
    await mkdir(context.workspace, { recursive: true });
    warning = `[the workspace ${context.workspace} was missing and has been created again, empty]`;
  }
  const facts = await stat(cwd).catch(() => undefined);
  if (facts?.isDirectory()) return { cwd, warning };
  const problem =
    facts === undefined ? "the working directory is missing" : "the working directory is not a folder";
  throw new RecoverableError(
    `${[warning, `${problem}: ${cwd}`].filter(Boolean).join("\n")}. Nothing was run`,
  );
}

/** Waits for the end. Where the run ends, so does the command; where the worker goes, its next owner finds it. */
async function finish(files: Files, context: ToolContext, limitMs: number): Promise<ToolOutput> {
  const { environment, signal } = context;
  try {
    const result = await environment.wait(files, signal);
    // Nobody recorded an end: the supervisor itself was killed, and the command may run still.
    if (result.exitCode === null && result.signal === null) await environment.kill(files);
    return await toOutput(result, context, limitMs);
  } catch (thrown) {
    const { reason } = signal;
    if (!signal.aborted || !(reason instanceof RunAborted) || !reason.endsRun) throw thrown;
    await environment.kill(files);
    const output = await readOutput(files.outputFile, outputChars(context));
    const content = `${output.trimEnd()}\n[the command was ended: ${reason.message}]`.trimStart();
    return { content, isError: true, note: reason.kind };
  }
}

async function toOutput(result: CommandResult, context: ToolContext, limitMs: number): Promise<ToolOutput> {
  const output = await readOutput(result.outputFile, outputChars(context));
  const { commandSilenceMs: silenceMs, workspace } = context;
  const described = describeResult(result, { output, limitMs, silenceMs, maxTimeoutMs });
  if (result.finalFolder === null) return described;
  const hint = `[ended in ${await displayPath(result.finalFolder, workspace)}; cd does not last]`;
  return { ...described, content: `${described.content}\n${hint}` };
}

function outputChars({ maxResultChars }: ToolContext): number {
  return Math.max(maxResultChars - footerChars, Math.floor(maxResultChars / 2));
}

async function describeLost(files: Files, context: ToolContext, startedAt: number | null): Promise<string> {
  const started =
    startedAt === null
      ? "the command was started"
      : `the command started at ${new Date(startedAt).toISOString()}`;
  const output = await readOutput(files.outputFile, Math.floor(context.maxResultChars / 2));
  return `${started}, and its supervisor was killed. ${output === "" ? "It printed nothing" : `It had printed:\n${output}\n`}`;
}
