import type { ModelReply, ReplyMessage, ToolSchema } from "../../model/model.ts";
import { type ParsedReply, type Protocol, type ReplyPlace, resultText } from "./protocol.ts";
import { type ReactInput, readReactReply } from "./react-reply.ts";
import { isCutOff, readRefusal, replyText } from "./reply-text.ts";
import { hasToolCalls, textReply } from "./text-reply.ts";
import { describeParameters, isWithoutInput, soleTextParameter } from "./tool-parameters.ts";

/**
 * Actions as the lines Thought, Action and Action Input; Final Answer ends the task. An Observation that the model makes up
 * is never read and never sent back, nor is what it says behind an action.
 */
export function reactProtocol(): Protocol {
  return {
    name: "react",
    describeTools: (tools) => tools.map(describeTool).join("\n"),
    requestTools: () => [],
    stop: ["\nObservation:"],
    readReply,
    renderReply: (message: ReplyMessage) => textReply(readReactReply(replyText(message)).kept),
    renderResult: ({ content, isError }) => ({
      role: "user",
      content: `Observation: ${resultText(content, isError)}`,
    }),
    renderNote: (text) => ({ role: "user", content: text }),
  };
}

function describeTool({ name, description, parameters }: ToolSchema): string {
  return `- ${name}: ${description}\n  Action Input: ${describeParameters(parameters)}`;
}

const howTo = `Every reply ends in one action, each label at the beginning of a line:

Thought: I look at what is here first.
Action: bash
Action Input: {"command": "ls -la"}

If the task is done, reply without an action instead:

Thought: I am done.
Final Answer: the result of the task`;

const problems = {
  cut: "was cut off by the output limit, so nothing of it was run. Send less at once, and write a long file in several parts.",
  empty: "was empty.",
  toolCall: "called a tool through the tool interface, which is not used here, so nothing was run.",
  none: "held neither an action nor a final answer, so nothing was run, and the task goes on.",
  name: "had an action without the plain name of one tool behind it, so nothing was run.",
  unreadable:
    'had an Action Input that is no JSON object, so nothing was run. Line breaks in it are written as \\n, quotes as \\".',
  blank: "had a final answer without a text.",
};

function readReply({ message, finishReason }: ModelReply, { step, tools }: ReplyPlace): ParsedReply {
  const refusal = readRefusal({ message, finishReason });
  if (refusal !== null) return { kind: "refused", text: refusal };
  const text = replyText(message);
  const isCut = isCutOff(finishReason);
  if (hasToolCalls(message)) return bad("toolCall");
  if (text === "") return bad(isCut ? "cut" : "empty");
  const reply = readReactReply(text);
  // Of a reply that was cut, only an object is known to be whole: it has its closing brace.
  if (isCut && !(reply.kind === "action" && reply.input.kind === "object")) return bad("cut");
  if (reply.kind === "none") return bad("none");
  if (reply.kind === "final") return reply.text === "" ? bad("blank") : { kind: "answer", text: reply.text };
  if (reply.name === "") return bad("name");
  const tool = tools.find(({ name }) => name === reply.name);
  const argumentsText = argumentsOf(reply.input, tool);
  if (argumentsText === null) return bad("unreadable", tool);
  const call = { name: reply.name, argumentsText, wireId: `call_${step}_1` };
  return { kind: "calls", calls: [call], text: reply.thought };
}

/** Null where the input says nothing that the tool could be called with. A tool that is none of ours is answered later. */
function argumentsOf(input: ReactInput, tool: ToolSchema | undefined): string | null {
  switch (input.kind) {
    case "object":
      return input.json;
    case "none":
      return tool === undefined || isWithoutInput(tool) ? "{}" : null;
    case "text": {
      const parameter = tool === undefined ? "input" : soleTextParameter(tool);
      return parameter === null ? null : JSON.stringify({ [parameter]: input.text });
    }
    case "unreadable":
      return null;
    default:
      return input satisfies never;
  }
}

function bad(problem: keyof typeof problems, tool?: ToolSchema): ParsedReply {
  const form =
    tool === undefined
      ? ""
      : `\n\nThe input of ${tool.name} has this form: ${describeParameters(tool.parameters)}`;
  return { kind: "bad", problem: `Your last reply ${problems[problem]}${form}\n\n${howTo}` };
}
