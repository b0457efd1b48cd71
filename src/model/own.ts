import { ModelError } from "../errors.ts";
import { isObject } from "./json.ts";
import { type Model, noUsage, type Usage } from "./model.ts";

/**
 * A model of the user's, of which nobody knows what it gives: a reply of another form is a ModelError that says what was
 * expected, and a count that is none is unknown.
 */
export function checkedModel(model: Model): Model {
  return {
    async ask(request, signal) {
      const reply: unknown = await model.ask(request, signal);
      if (!isObject(reply) || !isObject(reply.message)) {
        const got = JSON.stringify(isObject(reply) ? { message: reply.message ?? null } : (reply ?? null));
        throw new ModelError(
          "invalid",
          `expected the model's own ask to give { message, finishReason, usage, responseId }, with a message such as { role: "assistant", content: "…" }, got ${got.slice(0, 200)}`,
        );
      }
      const { message, finishReason, usage, responseId } = reply;
      return {
        message: { ...message, role: "assistant" },
        finishReason: typeof finishReason === "string" ? finishReason : null,
        usage: countsOf(usage),
        responseId: typeof responseId === "string" ? responseId : null,
      };
    },
  };
}

function countsOf(usage: unknown): Usage {
  const given = isObject(usage) ? usage : {};
  const entries = Object.keys(noUsage).map((name) => {
    const count = given[name];
    return [
      name,
      typeof count === "number" && Number.isFinite(count) && count >= 0 ? Math.round(count) : null,
    ];
  });
  return { ...noUsage, ...Object.fromEntries(entries) };
}
