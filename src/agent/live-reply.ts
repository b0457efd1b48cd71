import type { Logger } from "../log.ts";
import type { Delta, ModelRequest } from "../model/model.ts";

/** More often nobody could read it. */
const tellEveryMs = 200;

/** What tells those who watch how far the reply of a step has come; nothing where nobody does. Only counts are told. */
export function liveReply(logger: Logger, step: number): Pick<ModelRequest, "onDelta"> {
  if (logger.live === undefined) return {};
  let reasoningChars = 0;
  let answerChars = 0;
  let toldAt = Number.NEGATIVE_INFINITY;
  return {
    onDelta({ text, reasoning, call }: Delta) {
      reasoningChars += reasoning.length;
      answerChars += text.length + call.length;
      if (performance.now() - toldAt < tellEveryMs) return;
      toldAt = performance.now();
      logger.live?.("step.answering", { step, reasoningChars, answerChars });
    },
  };
}
