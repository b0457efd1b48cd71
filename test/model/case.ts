import { expect } from "vitest";
import type { Played, PlayedCase } from "../helpers/case-run.ts";
import type { CaseReply, Message } from "../helpers/case-server.ts";

export const call = (id: string | undefined, name: string, input: unknown, more: object = {}) => ({
  ...(id !== undefined && { id }),
  type: "function",
  function: { name, arguments: typeof input === "string" ? input : JSON.stringify(input) },
  ...more,
});
/** Says its word, and leaves a trace that a second run would double. */
export const echo = (word: string) => ({ command: `echo ${word} | tee -a ran` });
export const asks = (
  calls: object[],
  more: object = {},
  finish: string | null = "tool_calls",
): CaseReply => ({
  message: { role: "assistant", content: null, ...more, tool_calls: calls },
  finish,
});
export const says = (content: unknown, more: object = {}, finish = "stop"): CaseReply => ({
  message: { role: "assistant", content, ...more },
  finish,
});

export interface Case extends PlayedCase {
  what: string;
  check(played: Played): void;
}

export const messagesOf = ({ next }: Played): Message[] => next?.messages ?? [];
export const lastOf = (played: Played) => messagesOf(played).at(-1);
export const lastReplyOf = (played: Played) =>
  messagesOf(played).findLast(({ role }) => role === "assistant");
export const resultsOf = (played: Played) => messagesOf(played).filter(({ role }) => role === "tool");

/** Every command ran once, calls and results are linked by ids of their own, and the run went on to its end. */
export function expectRan(played: Played, words: string[]): void {
  expect(played.file("ran")).toBe(words.map((word) => `${word}\n`).join(""));
  const ids = messagesOf(played).flatMap(({ tool_calls: calls = [] }) => calls.map(({ id }) => id));
  expect(new Set(ids).size).toBe(words.length);
  expect(ids.every((id) => typeof id === "string" && id.trim() !== "")).toBe(true);
  expect(resultsOf(played).map(({ tool_call_id: id }) => id)).toEqual(ids);
  expect(resultsOf(played).map(({ content }) => content)).toEqual(words);
  expect(played.run).toMatchObject({ status: "succeeded", result: "done" });
}

/** Nothing ran; the model was told what is wrong and went on. */
export function expectTold(played: Played): void {
  expect(played.file("ran")).toBe("");
  expect(lastOf(played)?.role).toBe("user");
  expect(messagesOf(played).every(({ content }) => content === null || String(content).trim() !== "")).toBe(
    true,
  );
  expect(played.run).toMatchObject({ status: "succeeded", result: "done" });
}
