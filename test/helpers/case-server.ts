import { completion, events, type RawResponse, startRawServer } from "./raw-server.ts";

export interface Message {
  role: string;
  content?: unknown;
  tool_calls?: { id: string; function: { name: string; arguments: string }; [member: string]: unknown }[];
  tool_call_id?: string;
  [member: string]: unknown;
}

/** A reply of a case: a message and how it ended, or a response of its own. */
export type CaseReply = { message: object; finish: string | null } | { raw: RawResponse };

/** Requests of a case, oldest first, with what was asked. */
export interface CaseRequest {
  messages: Message[];
  tools?: unknown[];
}

export interface CaseServer {
  url: string;
  /** All requests of a case, as they came. */
  requestsOf(id: string): CaseRequest[];
  /** Whether the request behind the replies of a case has come and is left without an answer. */
  isHeld(id: string): boolean;
  /** From now on every request is answered. */
  release(): void;
  close(): Promise<void>;
}

/**
 * Answers each case, known by `CASE=id` in its task, with its replies in order, in one piece or as a stream. The request
 * behind them hangs until the server is released; then each is answered with "done", or the last reply is repeated.
 */
export async function startCaseServer(
  cases: { id: string; replies: CaseReply[]; isRepeated?: boolean }[],
  options: { isStreaming: boolean },
): Promise<CaseServer> {
  const counts = new Map<string, number>();
  const held = new Set<string>();
  let isReleased = false;
  const idOf = (body: unknown) => /CASE=([\w.-]*\w)/.exec(JSON.stringify(body))?.[1] ?? "";

  const server = await startRawServer((_, body) => {
    const id = idOf(body);
    const each = cases.find((one) => one.id === id);
    const count = (counts.get(id) ?? 0) + 1;
    counts.set(id, count);
    const reply =
      each?.replies[count - 1] ?? (isReleased && each?.isRepeated ? each.replies.at(-1) : undefined);
    if (reply) return respond(reply, options.isStreaming);
    if (isReleased)
      return respond({ message: { role: "assistant", content: "done" }, finish: "stop" }, false);
    held.add(id);
    return { hang: true };
  });
  return {
    url: server.url,
    requestsOf: (id) =>
      server.requests.map(({ body }) => body as CaseRequest).filter((body) => idOf(body) === id),
    isHeld: (id) => held.has(id),
    release: () => (isReleased = true),
    close: server.close,
  };
}

function respond(reply: CaseReply, isStreaming: boolean): RawResponse {
  if ("raw" in reply) return reply.raw;
  const body = completion(reply.message, reply.finish, { prompt_tokens: 120, completion_tokens: 30 });
  return isStreaming ? { pieces: events(...chunksOf(reply.message, reply.finish), "[DONE]") } : { body };
}

const chunkOf = (delta: object, finish: string | null = null) => ({
  choices: [{ index: 0, delta, finish_reason: finish }],
});

/** A message in pieces of few characters, as servers stream it. */
function chunksOf(message: object, finish: string | null): object[] {
  const chunks = Object.entries(message).flatMap(([name, value]) => {
    if (name === "tool_calls" && Array.isArray(value) && value.length > 0) return value.flatMap(callChunks);
    if (name === "content" && Array.isArray(value)) return value.map((part) => chunkOf({ content: [part] }));
    if (name === "role" || typeof value !== "string") return [chunkOf({ [name]: value })];
    return pieces(value).map((piece) => chunkOf({ [name]: piece }));
  });
  return [...chunks, chunkOf({}, finish)];
}

function callChunks(call: { function: { name: string; arguments: string } }, index: number): object[] {
  const { arguments: text, ...named } = call.function;
  const first = { ...call, index, function: { ...named, arguments: "" } };
  const rest = pieces(text).map((piece) => ({ index, function: { arguments: piece } }));
  return [first, ...rest].map((each) => chunkOf({ tool_calls: [each] }));
}

function pieces(text: string): string[] {
  return text.match(/.{1,3}/gsu) ?? [text];
}
