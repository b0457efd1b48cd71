import { Command, Option } from "commander";
import type { FieldFlag } from "../producer/fields.ts";
import { packageVersion } from "../version.ts";

const runReference = "an id, a unique prefix of one, or a key";
const json = "JSON on stdout and nothing else";

/**
 * The commands. Each one's module is loaded when it is used: all of them at once cost half a second at start. `fields` are
 * the flags of the commands that make tasks.
 */
export function createProgram(fields: FieldFlag[]): Command {
  const program = new Command("pawl")
    .description(
      "Runs LLM agents in batch, unattended: every step is a checkpoint, a killed run resumes where it stood.",
    )
    .version(packageVersion())
    .exitOverride()
    .configureOutput({ outputError: () => {} })
    .showSuggestionAfterError();
  addWork(program, fields);
  addLook(program);
  addTake(program);
  addSteer(program, fields);
  return program;
}

function addWork(program: Command, fields: FieldFlag[]): void {
  program
    .command("demo")
    .description("see it work without a key: five repositories, a scripted model, a worker killed midway")
    .option("--keep", "keep the temporary folder")
    .addOption(
      new Option("--break <what>", "a model that is told of a mistake: format, timeout or unknown-tool"),
    )
    .action(async (options) => (await import("./demo.ts")).demo(options));
  const run = program
    .command("run")
    .description("enqueue one task and work on it here: steps on stderr, the answer on stdout")
    .argument("<prompt>", "what to do")
    .option("--save <file>", "write the whole history as JSON when the run ends")
    .option("--batch <name>", "batch the task belongs to")
    .option("--provider <name>", "where the model is and how to speak with it")
    .option("--base-url <url>", "endpoint of the model")
    .option("--json", "the finished run as one JSON document on stdout")
    .addOption(new Option("--continue <run>", "not built yet").hideHelp());
  addFieldFlags(run, fields).action(async (prompt, options) =>
    (await import("./run.ts")).run(prompt, options),
  );
  const enqueue = program
    .command("enqueue")
    .description("add tasks for workers")
    .argument("[prompt]", "what to do, once for each --repo")
    .option("--file <file>", "a task a line, as JSON; - is standard input")
    .option("--batch <name>", "batch the tasks belong to")
    .option("--batch-budget-usd <dollars>", "the most the batch may cost; without a prompt, raises it alone")
    .option("--batch-budget-tokens <integer>", "the most tokens of prompts and replies of the batch")
    .option("--dry-run", "show what would be added, add nothing")
    .option("--json", "one JSON document a task on stdout");
  addFieldFlags(enqueue, fields).action(async (prompt, options) =>
    (await import("./enqueue.ts")).enqueue(prompt, options),
  );
  program
    .command("worker")
    .description("work on what is enqueued")
    .option("--concurrency <n>", "runs at the same time")
    .option("--drain", "stop once there is nothing left to do")
    .action(async (options) => (await import("./worker.ts")).work(options));
  program
    .command("stop")
    .description("ask every worker to stop, and wait: current steps get a few seconds, runs stay resumable")
    .option("--json", json)
    .action(async (options) => (await import("./stop.ts")).stop(options));
  program
    .command("backup")
    .description("copy the database, also while workers run")
    .argument("<file>", "a new file")
    .option("--json", json)
    .action(async (file, options) => (await import("./backup.ts")).backup(file, options));
}

function addLook(program: Command): void {
  program
    .command("status")
    .description("count the runs")
    .option("--batch <name>", "of this batch alone")
    .option("--watch", "again whenever something changes")
    .option("--exit-code", "exit 1 if some run failed; with --watch, once all have ended")
    .option("--json", json)
    .action(async (options) => (await import("./status.ts")).status(options));
  program
    .command("list")
    .description("list the runs, newest first")
    .option("--batch <name>", "of this batch alone")
    .option("--status <status>", "with this status alone")
    .option("--limit <n>", "at the most")
    .option("--json", json)
    .action(async (options) => (await import("./list.ts")).list(options));
  program
    .command("show")
    .description("all about a run")
    .argument("<run>", runReference)
    .option("--json", json)
    .action(async (reference, options) => (await import("./show.ts")).show(reference, options));
  program
    .command("logs")
    .description("what happened to a run: its messages and events in order")
    .argument("<run>", runReference)
    .option("-f, --follow", "until the run ends")
    .option("--json", json)
    .action(async (reference, options) => (await import("./logs.ts")).logs(reference, options));
  program
    .command("tools")
    .description("the tools that a run would be offered")
    .option("--tools <list>", "those that a task of these names would get")
    .option("--protocol <name>", "those that a task with this protocol would get")
    .option("--json", json)
    .action(async (options) => (await import("./tools.ts")).tools(options));
  program
    .command("doctor")
    .description("what is missing before a night's run")
    .option("--json", json)
    .option("--model", "ask the model too: one tiny request with a tool")
    // A process that doctor starts itself, so that it can end it.
    .addOption(new Option("--quick-check", "read the whole database").hideHelp())
    .action(async (options) => (await import("./doctor.ts")).doctor(options));
}

function addTake(program: Command): void {
  program
    .command("diff")
    .description("the change a run made")
    .argument("<run>", runReference)
    .option("--step <n>", "of this step alone")
    .option("--json", json)
    .action(async (reference, options) => (await import("./diff.ts")).diff(reference, options));
  program
    .command("restore")
    .description("the files as they were after a step; --step 0 without --to undoes a run in place")
    .argument("<run>", runReference)
    .option("--step <n>", "the step; 0 is before the first")
    .option("--snapshot <hash>", "instead: what was kept when files were put back")
    .option("--to <folder>", "a new or empty folder")
    .option("--json", "one JSON document on stdout")
    .action(async (reference, options) => (await import("./restore.ts")).restore(reference, options));
  program
    .command("fork")
    .description("a new run that goes on from a step of another one")
    .argument("<run>", runReference)
    .argument("[prompt]", "what the model is told first")
    .requiredOption("--step <n>", "the step; 0 is before the first")
    .option("--json", "one JSON document on stdout")
    .action(async (reference, prompt, options) =>
      (await import("./fork.ts")).fork(reference, prompt, options),
    );
  program
    .command("apply")
    .description("bring a run's change into your checkout")
    .argument("<run>", runReference)
    .option("--to <folder>", "the checkout; by default the run's repository")
    .option("--json", "one JSON document on stdout")
    .action(async (reference, options) => (await import("./apply.ts")).apply(reference, options));
  program
    .command("export")
    .description("take a run elsewhere")
    .argument("<run>", runReference)
    .requiredOption("--format <format>", "messages, jsonl or patch")
    .action(async (reference, options) => (await import("./export.ts")).exportRun(reference, options));
}

function addSteer(program: Command, fields: FieldFlag[]): void {
  const verbs = {
    cancel: "end runs; what they did is kept",
    pause: "hold runs after their current step",
    resume: "go on with runs that wait",
    retry:
      "make a new attempt of finished runs, in a fresh workspace; flags change the task, its prompt and place aside",
  };
  for (const [verb, description] of Object.entries(verbs)) {
    const command = program
      .command(verb)
      .description(description)
      .argument("[runs...]", "ids, unique prefixes of ids, or keys")
      .option("--batch <name>", "all runs of this batch that it can change")
      .option("--class <class>", "only those that ended with a reason of this class")
      .option("--json", "one JSON document a run on stdout");
    if (verb === "retry")
      addFieldFlags(
        command,
        fields.filter(({ isForRetry }) => isForRetry),
      );
    command.action(async (references, options) =>
      (await import("./steer.ts")).steer(verb, references, options),
    );
  }
}

function addFieldFlags(command: Command, fields: FieldFlag[]): Command {
  for (const { name, flag, type, help, isRepeated, isBuilt } of fields) {
    if (name === "prompt") continue;
    const option = new Option(`${flag} <${type}>`, help);
    if (!isBuilt) option.hideHelp();
    // `--image` is an item of `images`.
    option.attributeName = () => name;
    if (isRepeated || (name === "repo" && command.name() === "enqueue")) option.argParser(collect);
    command.addOption(option);
  }
  return command;
}

function collect(value: string, values: string[] | undefined): string[] {
  return [...(values ?? []), value];
}
