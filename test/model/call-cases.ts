import { expect } from "vitest";
import { asks, type Case, call, echo, expectRan, lastOf, lastReplyOf, resultsOf } from "./case.ts";

/** Replies with calls, as servers send them. */
export const callCases: Case[] = [
  {
    id: "A04.1",
    what: "arguments that were encoded twice are decoded",
    replies: [asks([call("c1", "bash", JSON.stringify(JSON.stringify(echo("hi"))))])],
    check: (played) => expectRan(played, ["hi"]),
  },
  {
    id: "A04.2",
    what: "a text that holds JSON stays a text",
    replies: [asks([call("c1", "write_file", { path: "cfg.json", content: '{"a":1}' })])],
    check: (played) => expect(played.file("cfg.json")).toBe('{"a":1}'),
  },
  {
    id: "A04.3",
    what: "a text that looks like a number stays a text",
    replies: [asks([call("c1", "write_file", { path: "v.txt", content: "42" })])],
    check: (played) => expect(played.file("v.txt")).toBe("42"),
  },
  {
    id: "A06.1",
    what: "empty ids of calls are replaced",
    replies: [asks([call("", "bash", echo("a")), call("", "bash", echo("b"))])],
    check: (played) => expectRan(played, ["a", "b"]),
  },
  {
    id: "A06.2",
    what: "a missing id is made",
    replies: [asks([call(undefined, "bash", echo("a"))])],
    check: (played) => expectRan(played, ["a"]),
  },
  {
    id: "A06.3",
    what: "an id that comes twice in a reply is renamed the second time",
    replies: [asks([call("call_0", "bash", echo("a")), call("call_0", "bash", echo("b"))])],
    check: (played) => expectRan(played, ["a", "b"]),
  },
  {
    id: "A06.4",
    what: "an id of an earlier turn is another call",
    replies: [asks([call("call_0", "bash", echo("first"))]), asks([call("call_0", "bash", echo("second"))])],
    check: (played) => {
      expect(played.file("ran")).toBe("first\nsecond\n");
      expect(resultsOf(played).map(({ content }) => content)).toEqual(["first", "second"]);
    },
  },
  ...["stop", "other", "unknown", null].map(
    (finish): Case => ({
      id: `A07.1-${finish}`,
      what: `calls run although the reason is ${finish}`,
      replies: [
        asks(
          [call("c1", "bash", echo("a")), call("c2", "bash", echo("b"))],
          { content: "Let me look." },
          finish,
        ),
      ],
      check: (played) => expectRan(played, ["a", "b"]),
    }),
  ),
  {
    id: "A11.1",
    what: "reasoning goes back byte for byte",
    replies: [asks([call("c1", "bash", echo("a"))], { content: "", reasoning_content: "think-é-🔍" })],
    check: (played) => {
      expectRan(played, ["a"]);
      expect(lastReplyOf(played)?.reasoning_content).toBe("think-é-🔍");
    },
  },
  {
    id: "A12.1",
    what: "a signature on a call goes back where it was, and none is invented",
    replies: [
      asks([
        call("g1", "bash", echo("a"), { extra_content: { google: { thought_signature: "U0lHLTE=" } } }),
        call("g2", "bash", echo("b")),
      ]),
    ],
    check: (played) => {
      expectRan(played, ["a", "b"]);
      const [first, second] = lastReplyOf(played)?.tool_calls ?? [];
      expect(first?.extra_content).toEqual({ google: { thought_signature: "U0lHLTE=" } });
      expect(second).not.toHaveProperty("extra_content");
    },
  },
  {
    id: "A22.1",
    what: "a prefix before the name of a tool is taken off",
    replies: [asks([call("c1", "functions.bash", echo("a"))])],
    check: (played) => expectRan(played, ["a"]),
  },
  {
    id: "A22.2",
    what: "what leaked behind the name of a tool is taken off",
    replies: [asks([call("c1", "bash<|channel|>commentary", echo("a"))])],
    check: (played) => {
      expectRan(played, ["a"]);
      const names = lastReplyOf(played)?.tool_calls?.map((each) => each.function.name) ?? [];
      expect(names.every((name) => /^[\w-]{1,64}$/.test(name))).toBe(true);
    },
  },
  {
    id: "A22.3",
    what: "an invented tool is an error that lists the real ones",
    replies: [asks([call("c1", "delete_everything", { path: "." })])],
    check: (played) => expect(lastOf(played)?.content).toContain("bash"),
  },
  {
    id: "A22.4",
    what: "an unknown name among good calls costs none of them",
    replies: [
      asks([
        call("c1", "bash", echo("a")),
        call("c2", "nope", {}),
        call("c3", "bash", { command: "exit 3" }),
        call("c4", "bash", echo("d")),
      ]),
    ],
    check: (played) => {
      expect(resultsOf(played).map(({ tool_call_id: id }) => id)).toEqual(["c1", "c2", "c3", "c4"]);
      expect(resultsOf(played)[2]?.content).toContain("exit code 3");
      expect(played.file("ran")).toBe("a\nd\n");
    },
  },
];
