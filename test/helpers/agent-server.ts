import { onTestFinished } from "vitest";
import { bridge } from "../../src/model/roles.ts";
import { type ModelServer, startModelServer } from "./model-server.ts";

interface Step {
  text?: string;
  tool?: string;
  input?: unknown;
  calls?: { name: string; arguments: unknown }[];
  error?: { status: number; message: string };
  delayMs?: number;
}

/** The replies of a run, by the first line of its task; the last one is repeated. */
export type Replies = Record<string, Step[]>;

/**
 * A model server that answers each task with its replies in order, whichever process asks; unknown tasks get "done". It is
 * closed when the test ends. `env` is what a `pawl` needs to use it.
 */
export async function startAgentServer(
  replies: Replies = {},
): Promise<ModelServer & { env: Record<string, string> }> {
  const server = await startModelServer(({ messages }) => {
    const task = String(messages.find(({ role }) => role === "user")?.content ?? "").split("\n")[0] ?? "";
    const steps = replies[task] ?? [{ text: "done" }];
    const isReply = ({ role, content }: (typeof messages)[number]) =>
      role === "assistant" && content !== bridge.content;
    const count = messages.filter(isReply).length;
    const { text, tool, input, calls, error, delayMs } = steps[count] ?? steps.at(-1) ?? {};
    const toolCalls = calls ?? (tool === undefined ? undefined : [{ name: tool, arguments: input ?? {} }]);
    return {
      ...(text !== undefined && { content: text }),
      ...(toolCalls && { toolCalls }),
      ...(error && { error }),
      ...(delayMs !== undefined && { delayMs }),
    };
  });
  onTestFinished(() => server.close());
  return { ...server, env: { OPENAI_BASE_URL: server.url, OPENAI_MODEL: "test-model" } };
}
