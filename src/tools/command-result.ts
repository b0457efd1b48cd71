import { constants } from "node:os";
import type { CommandResult } from "../environment/environment.ts";
import type { ToolOutput } from "./tool.ts";

/** What the model is told of a command that ended; never empty. */
export function describeResult(
  result: CommandResult,
  options: { output: string; limitMs: number; silenceMs: number; maxTimeoutMs: number },
): ToolOutput {
  const output = options.output.trimEnd();
  const seconds = options.limitMs / 1_000;
  if (result.fellSilent) {
    const silence = `no output for ${options.silenceMs / 1_000} s`;
    return failed(output, {
      note: silence,
      text:
        `${silence}; the command and what it started were ended, as it seems to hang. If it waits for something, do not ` +
        "wait for it here; if it works, have it print its progress",
    });
  }
  if (result.timedOut) {
    return failed(output, {
      note: `timed out after ${seconds} s`,
      text:
        `timed out after ${seconds} s${lastOutput(result, output)}; the command and what it started were ended. Nothing interactive works here: no ` +
        "editors, pagers, prompts or REPLs, and servers never end. For slow work set timeoutMs " +
        `(at most ${options.maxTimeoutMs})`,
    });
  }
  if (result.signal !== null) {
    const code = 128 + (signalNumbers.get(result.signal) ?? 0);
    return failed(output, { note: result.signal, text: `ended by ${result.signal} (exit code ${code})` });
  }
  if (result.exitCode === null) {
    return failed(output, {
      note: "outcome unknown",
      text: "outcome unknown: the command's supervisor was killed",
    });
  }
  if (result.exitCode !== 0) {
    return failed(output, { note: `exit ${result.exitCode}`, text: `exit code ${result.exitCode}` });
  }
  return { content: output === "" ? "(no output, exit 0)" : output, note: "exit 0" };
}

function lastOutput({ quietMs }: CommandResult, output: string): string {
  if (output === "" || quietMs === null) return "";
  return `, last output ${Math.round(quietMs / 100) / 10} s before`;
}

const signalNumbers = new Map<string, number>(Object.entries(constants.signals));

function failed(output: string, end: { note: string; text: string }): ToolOutput {
  const content = output === "" ? `(no output, ${end.text})` : `${output}\n[${end.text}]`;
  return { content, isError: true, note: end.note };
}
