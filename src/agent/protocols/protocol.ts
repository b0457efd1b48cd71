import type { ChatMessage, ModelReply, ReplyMessage, ToolSchema } from "../../model/model.ts";
import type { ProtocolName } from "../../protocol-name.ts";

/** A tool call as the model asked for it, cleaned of wire noise. */
export interface ParsedCall {
  /** Without what servers put around it; it may still be no tool of ours. */
  name: string;
  /** JSON text as it came; it may not parse. */
  argumentsText: string;
  /** Links call and result in requests. Stored with the call, so that it is the same after a restart. */
  wireId: string;
}

/**
 * What a reply means.
 * - `calls`: run them. `text` is what was said beside them, or empty.
 * - `answer`: the end of the task; `text` is the result, never blank.
 * - `bad`: nothing of it is run; `problem` is the note for the model.
 * - `refused`: the model or its provider would not answer; nothing of it is run.
 */
export type ParsedReply =
  | { kind: "calls"; calls: ParsedCall[]; text: string }
  | { kind: "answer"; text: string }
  | { kind: "bad"; problem: string }
  | { kind: "refused"; text: string };

/** What a reply is read with, beside itself. */
export interface ReplyPlace {
  /** Makes ids for calls that come without one. */
  step: number;
  /** The tools the run was begun with. */
  tools: ToolSchema[];
}

/**
 * How actions are written. All wire details of a conversation are behind this, and all of it is pure: the same stored
 * message gives the same bytes in every request. Only replies are ever read for actions, never results or notes.
 */
export interface Protocol {
  name: ProtocolName;
  /** What stands for `{{tools}}` in a system prompt. */
  describeTools(tools: ToolSchema[]): string;
  /** The tools to hand over beside the messages; empty where the prompt describes them. */
  requestTools(tools: ToolSchema[]): ToolSchema[];
  /** Texts at which a provider that can is asked to end a reply. */
  stop?: string[];
  readReply(reply: ModelReply, place: ReplyPlace): ParsedReply;
  /**
   * A stored reply as it is sent back. `wireIds` are those of its recorded calls, in order; a call without one was never
   * accepted and is left out, since no result will answer it.
   */
  renderReply(message: ReplyMessage, wireIds: string[]): ChatMessage;
  renderResult(result: { wireId: string; content: string; isError: boolean }): ChatMessage;
  /** The task, and whatever else we tell the model. */
  renderNote(text: string): ChatMessage;
}

/** A line a tool: its name and what it does. */
export function listTools(tools: ToolSchema[]): string {
  return tools.map(({ name, description }) => `- ${name}: ${description}`).join("\n");
}

/** Never blank, and an error is marked as one. */
export function resultText(content: string, isError: boolean): string {
  const text = content.trim() === "" ? "(no output)" : content;
  return isError && !/^error\b/i.test(text) ? `Error: ${text}` : text;
}
