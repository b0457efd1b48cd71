import { ConfigError, ModelError } from "../errors.ts";
import { type Model, type ModelReply, type ModelRequest, noUsage, type ReplyMessage } from "./model.ts";

/**
 * What goes wrong with a request, as pawl sees it of a real service:
 * - `rate_limit` (429, after `retryAfterMs`), `server_error` (503), `unreachable`, `garbage` (no completion came): asked again;
 * - `cut_stream`: the model answered, and the connection broke before all of it was here; asked again;
 * - `hang`: no answer until the request is given up (`requestTimeoutMs` is the real client's: here the run's end, or its stop);
 * - `refused_key` and `quota`: for a person; `overflow`: the history is shortened; `refused`: the run ends;
 * - `cut_reply` (output limit), `empty_reply`, `broken_call` (arguments that do not parse): replies that the model is told of.
 */
export type FaultKind = keyof typeof faults;

/** By its name, with the wait that the service asks for, or as the error itself. */
export type Fault = FaultKind | { kind: "rate_limit" | "quota"; retryAfterMs: number } | Error;

/**
 * Which fault a request meets, none if undefined: a list, one request after the other, or a function. `callNumber` starts at
 * 1 and is this process's own: where a run may be resumed elsewhere, decide by the request.
 */
export type FaultPlan =
  | readonly (Fault | undefined)[]
  | ((request: ModelRequest, callNumber: number) => Fault | undefined);

/** A model that fails as planned and else answers as `model` does: for tests of what depends on pawl. */
export function faulty(model: Model, plan: FaultPlan): Model {
  let callNumber = 0;
  return {
    async ask(request, signal) {
      signal.throwIfAborted();
      callNumber += 1;
      const fault = typeof plan === "function" ? plan(request, callNumber) : plan[callNumber - 1];
      if (fault === undefined) return model.ask(request, signal);
      if (fault instanceof Error) throw fault;
      const { kind, retryAfterMs } =
        typeof fault === "string" ? { kind: fault, retryAfterMs: undefined } : fault;
      if (!Object.hasOwn(faults, kind)) {
        const known = Object.keys(faults).join(", ");
        throw new ConfigError(
          `expected a fault (${known}), got ${JSON.stringify(kind)}: correct the plan of faulty`,
        );
      }
      return faults[kind]({ model, request, signal, retryAfterMs });
    },
  };
}

interface Asked {
  model: Model;
  request: ModelRequest;
  signal: AbortSignal;
  retryAfterMs: number | undefined;
}

const faults = {
  rate_limit: ({ retryAfterMs = 1_000 }: Asked) =>
    fail(
      new ModelError("retry", "the model server answered 429: too many requests", {
        retryAfterMs,
        isLimit: true,
      }),
    ),
  server_error: () =>
    fail(new ModelError("retry", "the model server answered 503: overloaded", { mayBeBilled: false })),
  unreachable: () =>
    fail(new ModelError("retry", "cannot reach the model server: ECONNREFUSED", { mayBeBilled: false })),
  garbage: () => fail(new ModelError("retry", "expected a chat completion, got \\u0000\\u0001{")),
  cut_stream: async ({ model, request, signal }: Asked) => {
    await model.ask(request, signal);
    return fail(new ModelError("retry", "the connection broke in the middle of the reply"));
  },
  hang: ({ signal }: Asked) =>
    new Promise<never>((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    }),
  refused_key: () => fail(new ModelError("auth", "the model server answered 401: the key is refused")),
  quota: ({ retryAfterMs }: Asked) =>
    fail(new ModelError("quota", "the model server answered 402: the quota is used up", { retryAfterMs })),
  overflow: () => fail(new ModelError("overflow", "the model server answered 400: the prompt is too long")),
  refused: () => fail(new ModelError("refused", "the model server answered 400: refused by its filter")),
  cut_reply: () => replyWith({ content: "First I will" }, "length"),
  empty_reply: () => replyWith({ content: "" }, "stop"),
  broken_call: ({ request }: Asked) => {
    const name = request.tools?.[0]?.name ?? "unknown";
    const call = { id: `broken_${request.messages.length}`, function: { name, arguments: '{"half' } };
    return replyWith({ content: null, tool_calls: [call] }, "tool_calls");
  },
} satisfies Record<string, (asked: Asked) => Promise<ModelReply>>;

async function fail(error: ModelError): Promise<never> {
  throw error;
}

async function replyWith(message: Omit<ReplyMessage, "role">, finishReason: string): Promise<ModelReply> {
  return { message: { ...message, role: "assistant" }, finishReason, usage: noUsage, responseId: null };
}
