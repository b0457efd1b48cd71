import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { ConfigError } from "../errors.ts";
import type { ChatMessage } from "../model/model.ts";
import { call, type ScriptedReply, say, scriptedModel } from "../model/scripted.ts";
import { openPawl } from "../pawl.ts";
import type { ProtocolName } from "../protocol-name.ts";
import { exportMessages } from "../report/export.ts";
import { displayWidth, printable } from "../report/text.ts";
import { paint, print } from "./output.ts";

/** A mistake of a model, and what it does once it has been told. */
export interface Mistake {
  title: string;
  protocol: ProtocolName;
  replies: ScriptedReply[];
}

const mistakes: Record<string, Mistake> = {
  format: {
    title: "a model that acts in text (bash-block) puts its command into the wrong block",
    protocol: "bash-block",
    replies: [
      say("I look at the files.\n\n```bash\nls\n```"),
      say("I see: the block has to be labelled bash-action.\n\n```bash-action\nls\n```"),
      say("There is one file, hello.txt.\n\n```bash-action\nexit\n```"),
    ],
  },
  timeout: {
    title: "a model starts a command that does not end, as an editor or a server would not",
    protocol: "native",
    replies: [
      { ...call("bash", { command: "tail -f hello.txt", timeoutMs: 1000 }), text: "I read the file." },
      { ...call("bash", { command: "cat hello.txt" }), text: "Without waiting for more, then." },
      say("hello.txt says hello world."),
    ],
  },
  "unknown-tool": {
    title: "a model calls a tool that there is not",
    protocol: "native",
    replies: [
      { ...call("open_file", { path: "hello.txt" }), text: "I open the file." },
      { ...call("read_file", { path: "hello.txt" }), text: "It is called read_file." },
      say("hello.txt says hello world."),
    ],
  },
};

/** Of a message this much is shown. */
const maxLines = 7;
const labelColumns = 11;
const defaultColumns = 80;

/** Throws ConfigError for a mistake that there is no play of. */
export function mistakeOf(name = ""): Mistake {
  const mistake = Object.hasOwn(mistakes, name) ? mistakes[name] : undefined;
  if (mistake) return mistake;
  throw new ConfigError(`--break: expected ${Object.keys(mistakes).join(", ")}, got ${name}`);
}

/** A run with a scripted model in `folder`, told message by message. True if it recovered. */
export async function playMistake(folder: string, { title, protocol, replies }: Mistake): Promise<boolean> {
  const dir = path.join(folder, "work");
  await mkdir(dir);
  await writeFile(path.join(dir, "hello.txt"), "hello world\n");
  const model = scriptedModel(({ messages }) => {
    const step = messages.filter(({ role }) => role === "assistant").length;
    return replies[step] ?? say("This model only knows its own play.");
  });
  const env = { ...process.env, PAWL_HOME: path.join(folder, ".pawl"), PAWL_QUEUE: "embedded" };
  const pawl = await openPawl({ cwd: folder, env, model });
  try {
    print(`${title}\n`);
    const [created] = await pawl.enqueue({ prompt: "Say what is in this folder.", dir, protocol });
    await (await pawl.startWorker({ drain: true })).done;
    const run = await pawl.getRun(created?.id ?? "");
    const messages = await exportMessages(pawl.store, await pawl.store.findRun(run.id));
    for (const message of messages.slice(2)) for (const line of describe(message)) print(line);
    const end = `${run.status} after ${run.steps} steps: the model was told and recovered`;
    print(`\n${run.status === "succeeded" ? paint("green", end) : paint("red", run.error ?? run.status)}`);
    return run.status === "succeeded";
  } finally {
    await pawl.close();
  }
}

/** Who speaks, and the beginning of what is said. */
function describe(message: ChatMessage): string[] {
  const isModel = message.role === "assistant";
  const calls = isModel ? (message.tool_calls ?? []) : [];
  const said = typeof message.content === "string" ? message.content : "";
  const asked = calls.map((each) =>
    "function" in each ? `→ ${each.function.name} ${each.function.arguments}` : each.type,
  );
  const columns = (process.stdout.columns || defaultColumns) - labelColumns;
  const text = printable([said, ...asked].filter(Boolean).join("\n")).trim();
  const lines = text.split("\n").flatMap((line) => wrap(line, columns));
  const shown = lines.length > maxLines ? [...lines.slice(0, maxLines), "…"] : lines;
  const label = (isModel ? "model" : "pawl says").padEnd(labelColumns);
  return shown.map((line, index) => {
    const head = index === 0 ? label : " ".repeat(labelColumns);
    return `${paint(isModel ? "cyan" : "yellow", head)}${line}`.trimEnd();
  });
}

/** A line in parts that fit, parted between words. */
function wrap(line: string, columns: number): string[] {
  const parts = [""];
  for (const word of line.split(" ")) {
    const longer = parts.at(-1) === "" ? word : `${parts.at(-1)} ${word}`;
    if (displayWidth(longer) <= columns || parts.at(-1) === "") parts[parts.length - 1] = longer;
    else parts.push(word);
  }
  return parts;
}
