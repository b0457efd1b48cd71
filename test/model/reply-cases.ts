import { expect } from "vitest";
import { events } from "../helpers/raw-server.ts";
import {
  asks,
  type Case,
  call,
  echo,
  expectRan,
  expectTold,
  lastOf,
  lastReplyOf,
  messagesOf,
  says,
} from "./case.ts";

/** Texts, refusals and streams, as servers send them. */
export const replyCases: Case[] = [
  {
    id: "A08.1",
    what: "a reason without calls is asked about a few times, then the run fails",
    replies: [says("", { tool_calls: [] }, "tool_calls")],
    isRepeated: true,
    check: (played) => {
      expect(lastReplyOf(played)).not.toHaveProperty("tool_calls");
      expect(played.run).toMatchObject({ status: "failed", reason: "bad_replies" });
      expect(played.requests).toBeLessThanOrEqual(4);
    },
  },
  {
    id: "A08.2",
    what: "an answer beside null for calls is the answer",
    replies: [says("All done.", { tool_calls: null })],
    check: ({ run, requests }) => {
      expect(run).toMatchObject({ status: "succeeded", result: "All done." });
      expect(requests).toBe(1);
    },
  },
  {
    id: "A09.1",
    what: "the text parts of a list are the answer, thinking is not",
    replies: [
      says([
        { type: "thinking", thinking: [{ type: "text", text: "secret plan" }] },
        { type: "reference", reference_ids: [1] },
        { type: "text", text: "The answer " },
        { type: "text", text: "is 7." },
      ]),
    ],
    check: ({ run }) => expect(run).toMatchObject({ status: "succeeded", result: "The answer is 7." }),
  },
  {
    id: "A13.1",
    what: "a silent command has a result that says so",
    replies: [asks([call("c1", "bash", { command: "true" })])],
    check: (played) => expect(lastOf(played)?.content).toBe("(no output, exit 0)"),
  },
  { id: "A13.2", what: "a blank reply is not sent back blank", replies: [says(" \n")], check: expectTold },
  {
    id: "A21.1",
    what: "calls of a stream without numbers are kept apart",
    replies: [
      {
        raw: {
          pieces: events(
            { choices: [{ delta: { role: "assistant", tool_calls: [call("g1", "bash", echo("a"))] } }] },
            { choices: [{ delta: { tool_calls: [call("g2", "bash", echo("b"))] }, finish_reason: "stop" }] },
            "[DONE]",
          ),
        },
      },
    ],
    check: (played) => expectRan(played, ["a", "b"]),
  },
  {
    id: "A21.2",
    what: "calls of a stream that all have the number 0 are kept apart",
    replies: [
      {
        raw: {
          pieces: events(
            { choices: [{ delta: { tool_calls: [call("g1", "bash", echo("a"), { index: 0 })] } }] },
            { choices: [{ delta: { tool_calls: [call("g2", "bash", echo("b"), { index: 0 })] } }] },
            { choices: [], usage: { prompt_tokens: 9, completion_tokens: 9, total_tokens: 18 } },
            "[DONE]",
          ),
        },
      },
    ],
    check: (played) => expectRan(played, ["a", "b"]),
  },
  {
    id: "A21.3",
    what: "a call of a stream whose number comes only once is put together",
    replies: [
      {
        raw: {
          pieces: events(
            { choices: [{ delta: { tool_calls: [call("g1", "bash", '{"comm', { index: 0 })] } }] },
            {
              choices: [
                { delta: { tool_calls: [{ function: { arguments: 'and":"echo a | tee -a ran"}' } }] } },
              ],
            },
            { choices: [{ delta: {}, finish_reason: "tool_calls" }] },
            "[DONE]",
          ),
        },
      },
    ],
    check: (played) => expectRan(played, ["a"]),
  },
  {
    id: "A21.4",
    what: "a stream that breaks off is asked for again, and nothing of it is run",
    replies: [
      {
        raw: {
          pieces: events({
            choices: [
              { delta: { tool_calls: [call("g1", "bash", '{"command":"echo no >> ran', { index: 0 })] } },
            ],
          }),
        },
      },
    ],
    check: (played) => {
      expect(played.file("ran")).toBe("");
      expect(messagesOf(played).map(({ role }) => role)).toEqual(["system", "user"]);
      expect(played.run).toMatchObject({ status: "succeeded", result: "done" });
    },
  },
  {
    id: "A24.1",
    what: "a refusal ends the run at once, in its own words",
    replies: [says(null, { refusal: "I cannot help with that." })],
    isRepeated: true,
    check: ({ run, requests }) => {
      expect(run).toMatchObject({ status: "failed", reason: "refused", error: "I cannot help with that." });
      expect(requests).toBe(1);
    },
  },
  {
    id: "A24.2",
    what: "a filtered reply ends the run and names the filter",
    replies: [says("", {}, "content_filter")],
    isRepeated: true,
    check: ({ run, requests }) => {
      expect(run).toMatchObject({ status: "failed", reason: "refused" });
      expect(run.error).toContain("content filter");
      expect(requests).toBe(1);
    },
  },
  {
    id: "A24.3",
    what: "a call that the filter cut is not run",
    replies: [
      asks(
        [call("c1", "write_file", '{"path":"x","content":"half')],
        { content: "partial" },
        "content_filter",
      ),
    ],
    check: (played) => {
      expect(played.file("x")).toBe("");
      expect(played.run).toMatchObject({ status: "failed", reason: "refused" });
    },
  },
  {
    id: "A25.1",
    what: "a call that is written as text is no answer",
    replies: [
      says('I will list files.\n<tool_call>\n{"name":"list_files","arguments":{"path":"."}}\n</tool_call>'),
    ],
    check: expectTold,
  },
  {
    id: "A25.2",
    what: "markup in the reasoning is not executed",
    replies: [
      says(null, {
        reasoning_content: `maybe <tool_call>${JSON.stringify({ name: "bash", arguments: echo("no") })}</tool_call>`,
      }),
    ],
    check: expectTold,
  },
  {
    id: "A25.3",
    what: "markup that is quoted in an answer is not executed",
    replies: [says('Fixed. The docs now show ```\n<tool_call>{"name":"bash"}</tool_call>\n```')],
    check: ({ run }) => expect(run.status).toBe("succeeded"),
  },
];
