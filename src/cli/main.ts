#!/usr/bin/env node
import { CommanderError } from "commander";
import { ConfigError } from "../errors.ts";
import { armFailpoint } from "../failpoint.ts";
import { keepStdout, note } from "./output.ts";
import { createProgram } from "./program.ts";

/** Exit codes of the contract. */
const exitCodes = { failed: 1, wrongUse: 2 };
/** Commands whose flags are the fields of a task; the table of fields loads the schema library, so only they load it. */
const commandsWithFields = ["run", "enqueue", "retry"];
/** Commands with something to bring to its end even if nobody reads what they print. */
const commandsToFinish = ["run", "demo"];

async function main(words: string[]): Promise<void> {
  keepStdout();
  armFailpoint(process.env.PAWL_FAILPOINT);
  survivePipes(words);
  const hasFields = words.some((word) => commandsWithFields.includes(word));
  const fields = hasFields ? (await import("../producer/fields.ts")).fieldFlags : [];
  const program = createProgram(fields);
  try {
    await program.parseAsync(words, { from: "user" });
  } catch (error) {
    process.exitCode = report(
      error,
      words.find((word) => program.commands.some((command) => command.name() === word)),
    );
  }
}

/** Nobody reads on (`pawl list | head`): no fault, but nothing more to do either. */
function survivePipes(words: string[]): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    if (!words.some((word) => commandsToFinish.includes(word))) process.exit();
  });
  // Who follows the progress may go; the work goes on.
  process.stderr.on("error", () => {});
}

/** One line for wrong use or configuration; everything for a fault of ours. */
function report(error: unknown, command: string | undefined): number {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return 0;
    // Help that was not asked for is on stderr already.
    if (error.code !== "commander.help") note(`pawl: ${explain(error, command)}`);
    return exitCodes.wrongUse;
  }
  if (error instanceof ConfigError) {
    note(`pawl: ${error.message}`);
    return exitCodes.wrongUse;
  }
  note(`pawl: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  return exitCodes.failed;
}

/** Commander's message on one line, and what to do. */
function explain({ message, code }: CommanderError, command: string | undefined): string {
  const text = message.replace(/^error: /, "").replace(/\s*\n\s*/g, " ");
  const isUnquoted = code === "commander.excessArguments" && (command === "run" || command === "enqueue");
  if (isUnquoted) return `${text} Put the prompt in quotes: pawl ${command} "PROMPT"`;
  return `${text.replace(/\.$/, "")}; see pawl${command === undefined ? "" : ` ${command}`} --help`;
}

await main(process.argv.slice(2));
