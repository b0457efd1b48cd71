import { ModelError } from "../errors.ts";
import { createAssembly } from "./assemble.ts";
import { oneLine } from "./failure.ts";
import { isObject, parseJson } from "./json.ts";
import type { Reading } from "./receive.ts";

/** The mark that ends a stream. */
const doneMark = "[DONE]";

/** Reads the lines of a stream of events and puts the completion in them together. */
export function createEventStream({ heard, onDelta, redact }: Reading) {
  const assembly = createAssembly();
  let eventName = "";
  let pending = "";
  let isEnded = false;
  let checkedChars = 0;

  function takeData(data: string): void {
    pending = pending === "" ? data : `${pending}\n${data}`;
    const chunk = parseJson(pending);
    if (!isObject(chunk)) return;
    pending = "";
    const isError = eventName === "error" || chunk.object === "error";
    const { isToken, ...delta } = assembly.add(isError ? { error: chunk.error ?? chunk } : chunk);
    isEnded ||= assembly.hasFailed();
    heard(isToken);
    if (isToken) onDelta?.(delta);
  }

  function takeLine(line: string): void {
    const [, field, value = ""] = /^(data|event): ?(.*)$/s.exec(line) ?? [];
    if (field === "event") eventName = value.trim();
    else if (field === "data" && value.trim() === doneMark) isEnded = true;
    else if (field === "data" && value.trim() !== "") takeData(value);
    else if (line === "") {
      eventName = "";
      if (pending === "") return;
      throw new ModelError("retry", `expected a piece of a reply, got ${oneLine(redact(pending))}`);
    }
  }

  return {
    /** Takes the whole lines of a text and gives the rest. */
    take(text: string): string {
      const lines = text.split("\n");
      const rest = lines.pop() ?? "";
      for (const line of lines) if (!isEnded) takeLine(line.replace(/\r$/, ""));
      return rest;
    },

    /** Whether the server said that nothing follows, or that it failed. */
    isEnded: () => isEnded,
    /** Whether the server said why the reply ended; the count of tokens may follow. */
    isFinished: assembly.isFinished,
    body: assembly.body,

    /** About how much is held; looked at once in so many characters that came. */
    heldChars(cameChars: number, everyChars: number): number {
      if (cameChars - checkedChars < everyChars) return 0;
      checkedChars = cameChars;
      return JSON.stringify(assembly.body()).length;
    },
  };
}
