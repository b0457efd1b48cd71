import { writeFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import type { ProtocolName } from "../../src/protocol-name.ts";
import { expectSoundLogs, expectSoundRequests } from "../helpers/invariants.ts";
import { createScenario, markOf, type Scenario, type Story } from "../helpers/scenario.ts";

type Written = { act(command: string): string; end(text: string): string };

const written: Record<Exclude<ProtocolName, "native">, Written> = {
  "bash-block": {
    act: (command) => `I go on.\n\n\`\`\`bash-action\n${command}\n\`\`\``,
    end: (text) => `${text}\n\n<bash_action>exit</bash_action>`,
  },
  react: {
    act: (command) =>
      `Thought: I go on.\nAction: bash\nAction Input: ${JSON.stringify({ command })}\nObservation: mark-k-9\nFinal Answer: made up`,
    end: (text) => `Thought: I am done.\nFinal Answer: ${text}`,
  },
};

/** Three commands, the second after a reply without any. */
const storyIn =
  ({ act, end }: Written): Story =>
  (_key, done, run, messages) => {
    const isTold = String(messages?.at(-1)?.content).startsWith("Your last reply");
    if (done === 1 && !isTold) return { content: "I should run the next command now." };
    return { content: done < 3 ? act(run(done + 1).arguments.command) : end("all done") };
  };

async function killAt(scenario: Scenario, failpoint: string): Promise<void> {
  const doomed = scenario.worker({ env: { PAWL_FAILPOINT: failpoint } });
  expect((await doomed.ended()).signal).toBe("SIGKILL");
}

describe.each(["bash-block", "react"] as const)("a run in the protocol %s", (protocol) => {
  test("goes on after any kill with the same requests, in its own protocol, whatever is configured by then", async () => {
    const scenario = await createScenario(storyIn(written[protocol]), { config: { protocol } });
    await scenario.enqueue(["k"]);
    // A reply that was lost: its request is sent again, byte for byte.
    await killAt(scenario, "model.answered:2");
    writeFileSync(path.join(scenario.folder, "pawl.config.json"), JSON.stringify({ protocol: "native" }));
    await killAt(scenario, "reply.committed:1");
    await killAt(scenario, "call.started:1");
    await killAt(scenario, "result.committed:1");
    expect((await scenario.worker().ended()).code).toBe(0);

    const { requests } = scenario.server;
    expectSoundLogs(scenario.database());
    expectSoundRequests(scenario.database(), requests, 4);
    const bodies = requests.map((request) => JSON.stringify(request));
    expect(bodies.length - new Set(bodies).size).toBe(1);
    expect(scenario.effects()).toEqual([1, 2, 3].map((number) => markOf("k", number)));
    const [run] = await scenario.json("show", "k");
    expect(run).toMatchObject({ status: "succeeded", result: "all done", steps: 5, protocol });

    for (const request of requests) {
      const roles = request.messages.map(({ role }) => role);
      const turns = Math.floor((roles.length - 1) / 2);
      expect(roles).toEqual(["system", "user", ...Array(turns).fill(["assistant", "user"]).flat()]);
      expect(request.tools).toBeUndefined();
      expect(request.stop).toEqual(protocol === "react" ? ["\nObservation:"] : undefined);
      expect(JSON.stringify(request)).not.toContain("made up");
    }
  });

  test("is forked in its protocol, and what a fork is told makes no two user messages in a row", async () => {
    const scenario = await createScenario(storyIn(written[protocol]));
    await scenario.enqueue(["k"], ["--protocol", protocol]);
    expect((await scenario.worker().ended()).code).toBe(0);
    const [first] = await scenario.json("show", "k");
    const [fork] = await scenario.json("fork", "k", "Go on otherwise.", "--step", "3");
    expect((await scenario.worker().ended()).code).toBe(0);
    const [forked] = await scenario.json("show", String(fork?.id));
    expect([first?.protocol, forked?.protocol]).toEqual([protocol, protocol]);
    expect(forked).toMatchObject({ status: "succeeded", result: "all done" });
    const last = scenario.server.requests.at(-1)?.messages ?? [];
    const roles = last.slice(1).map(({ role }) => role);
    expect(roles).toEqual(roles.map((_, index) => (index % 2 === 0 ? "user" : "assistant")));
    expect(last.some(({ content }) => /mark-k-2\n?\n\nGo on otherwise\./.test(String(content)))).toBe(true);
  });
});
