import { writeFileSync } from "node:fs";
import path from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { type Played, type PlayedCase, playCases } from "../helpers/case-run.ts";
import type { CaseReply } from "../helpers/case-server.ts";
import { callCases } from "./call-cases.ts";
import { asks, call, lastReplyOf, messagesOf, says } from "./case.ts";
import { replyCases } from "./reply-cases.ts";

// Replies as servers really send them, played through a real worker over real HTTP. In every case the worker is killed
// with SIGKILL once the request behind the replies is open: the next owner must send that request again, byte for byte.

const cases = [...callCases, ...replyCases];

describe.each([
  ["in one piece", false],
  ["as a stream", true],
])("a reply that comes %s", (_, isStreaming) => {
  const played = playedBefore(cases, { isStreaming });

  it.each(cases.map((each) => [each.id, each.what, each] as const))("%s: %s", (id, __, { check }) => {
    check(played(id));
  });

  it.each(cases.map(({ id }) => id))("%s goes on with the same request after a kill", (id) => {
    const { next, resumed } = played(id);
    expect(JSON.stringify(resumed)).toBe(JSON.stringify(next));
  });

  // In a stream nothing tells two texts of a list from the pieces of one.
  const isTold = (reply: CaseReply) =>
    "message" in reply && !(isStreaming && Array.isArray(Object(reply.message).content));

  it.each(
    cases.filter(({ replies }) => replies.every(isTold)).map((each) => [each.id, each.replies] as const),
  )("%s is stored as it came", (id, replies) => {
    const stored = played(id).stored.filter(({ role }) => role === "assistant");
    const came = stored.slice(0, replies.length).map(({ finish_reason: finish = null, ...message }) => ({
      message,
      finish,
    }));
    expect(came).toEqual(replies);
  });
});

/** Plays the cases before the tests of a block; gives what became of one. */
function playedBefore(list: PlayedCase[], options: Parameters<typeof playCases>[1]): (id: string) => Played {
  let all = new Map<string, Played>();
  beforeAll(async () => {
    all = await playCases(list, options);
  }, 300_000);
  return (id) => {
    const found = all.get(id);
    if (!found) throw new Error(`${id} was not played`);
    return found;
  };
}

describe.each(["ark", "anthropic", "deepseek", "mistral", "generic"])("what is sent to %s", (provider) => {
  const own: PlayedCase[] = [
    {
      id: "A13.1",
      replies: [asks([call("c1", "bash", { command: "true" })], { content: " \n", reasoning_content: "r" })],
    },
    { id: "A13.2", replies: [says(" \n")] },
    {
      id: "A14.1",
      replies: [asks([call("c1", "bash", { command: "echo x > mine" })], { content: "" })],
      meddle: (folder) => writeFileSync(path.join(folder, "others"), "changed while nobody worked"),
    },
  ];
  const played = playedBefore(own, { isStreaming: true, env: { PAWL_PROVIDER: provider } });
  const isStrict = ["mistral", "generic"].includes(provider);

  it("A13.1, A13.2: content is a text or null as it takes it, and never blank where that is refused", () => {
    const sent = [...messagesOf(played("A13.1")), ...messagesOf(played("A13.2"))];
    const contents = sent.map(({ content }) => content);
    const blank = provider === "ark" || provider === "deepseek" || provider === "mistral" ? "" : null;
    expect(lastReplyOf(played("A13.1"))?.content).toBe(blank);
    expect(contents.filter((content) => content === null || String(content).trim() === "")).toEqual([blank]);
  });

  it("A11.1: reasoning goes back, but not to servers that refuse unknown members", () => {
    const reply = lastReplyOf(played("A13.1")) ?? { role: "none" };
    expect("reasoning_content" in reply).toBe(provider !== "anthropic" && provider !== "mistral");
  });

  it("A14.1: a note behind a result stands behind a bridge where templates are strict", () => {
    const { resumed, next, stored } = played("A14.1");
    const roles = resumed?.messages.map(({ role }) => role);
    expect(roles).toEqual([
      "system",
      "user",
      "assistant",
      "tool",
      ...(isStrict ? ["assistant"] : []),
      "user",
    ]);
    expect(resumed?.messages.at(-1)?.content).toContain("others");
    expect(JSON.stringify(resumed?.messages.slice(0, 4))).toBe(JSON.stringify(next?.messages));
    expect(stored.map(({ role }) => role).slice(0, 5)).toEqual([
      "system",
      "user",
      "assistant",
      "tool",
      "user",
    ]);
  });
});
