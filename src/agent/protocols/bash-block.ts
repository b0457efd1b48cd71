import type { ModelReply } from "../../model/model.ts";
import { type ActionBlock, findActions } from "./action-blocks.ts";
import { listTools, type ParsedReply, type Protocol, type ReplyPlace, resultText } from "./protocol.ts";
import { isCutOff, readRefusal, replyText } from "./reply-text.ts";
import { hasToolCalls, textReply } from "./text-reply.ts";

/**
 * Actions as text: one bash command a reply, in a fenced block labelled bash-action or in the element bash_action. The
 * command `exit` ends the task, and what the reply says around it is the result.
 */
export function bashBlockProtocol(): Protocol {
  return {
    name: "bash-block",
    describeTools: listTools,
    requestTools: () => [],
    readReply,
    renderReply: (message) => textReply(replyText(message)),
    renderResult: ({ content, isError }) => ({
      role: "user",
      content: `Output of your command:\n${resultText(content, isError)}`,
    }),
    renderNote: (text) => ({ role: "user", content: text }),
  };
}

const howTo = `Every reply holds exactly one command, in a block like this one:

\`\`\`bash-action
ls -la
\`\`\`

If the task is done, write its result as text and end with this command:

\`\`\`bash-action
exit
\`\`\``;

const problems = {
  cut: "was cut off by the output limit, so nothing of it was run. Send less at once, and write a long file in several parts.",
  empty: "was empty.",
  toolCall: "called a tool through the tool interface, which is not used here, so nothing was run.",
  none: "held no command, so nothing was run, and the task goes on.",
  label: "had its command in a block of another name than bash-action, so nothing was run.",
  unclosed: "had a block that does not end, so nothing was run. End it with a fence on a line of its own.",
  several:
    "held more than one command, so nothing was run. Send one, and the next once you have seen its output.",
  inner:
    "had a fence or tag behind its command, so nobody can tell where the command ends, and nothing was run. If the command itself holds such lines, open and close its block with a longer fence (````bash-action … ````); otherwise write nothing behind the block.",
  blank: "had an empty block, so nothing was run.",
  noResult:
    "ended the task without a result. Write the result as text, above the block with the command exit.",
};

function readReply({ message, finishReason }: ModelReply, { step }: ReplyPlace): ParsedReply {
  const refusal = readRefusal({ message, finishReason });
  if (refusal !== null) return { kind: "refused", text: refusal };
  const text = replyText(message);
  // A command that is whole may still be the first of several.
  if (isCutOff(finishReason)) return bad("cut");
  if (hasToolCalls(message)) return bad("toolCall");
  if (text === "") return bad("empty");
  const { actions, labels } = findActions(text);
  const [action] = actions;
  if (!action) return bad(labels.some((label) => shells.includes(label)) ? "label" : "none");
  const problem = problemOf(action, actions.length);
  if (problem !== null) return bad(problem);
  const said = `${text.slice(0, action.start).trimEnd()}\n\n${text.slice(action.end).trimStart()}`.trim();
  if (!isExit.test(action.command)) {
    const argumentsText = JSON.stringify({ command: action.command });
    return { kind: "calls", calls: [{ name: "bash", argumentsText, wireId: `call_${step}_1` }], text: said };
  }
  return said === "" ? bad("noResult") : { kind: "answer", text: said };
}

/** Labels under which models write commands by habit. */
const shells = ["bash", "sh", "shell", "zsh", "console", "bash-command"];
const isExit = /^\s*exit(\s+0)?\s*;?\s*$/;

function problemOf(action: ActionBlock, count: number): keyof typeof problems | null {
  if (!action.isClosed) return "unclosed";
  if (count > 1) return "several";
  if (action.isAmbiguous) return "inner";
  return action.command.trim() === "" ? "blank" : null;
}

function bad(problem: keyof typeof problems): ParsedReply {
  return { kind: "bad", problem: `Your last reply ${problems[problem]}\n\n${howTo}` };
}
