import { readableArguments } from "./progress.ts";
import { counted, duration, localTime } from "./text.ts";

interface Doing {
  run: string;
  what: string;
  step: string;
  since: number;
}

/** What runs do at this moment, told from the events of their work. `at` and `now` are milliseconds of one clock. */
export interface Activities {
  observe(event: string, facts: Record<string, unknown>, at: number): void;
  /** One line about the run, or about the one that has been at it the longest; undefined where none works. */
  describe(now: number): string | undefined;
}

export function createActivities(): Activities {
  const doing = new Map<string, Doing>();

  function set(run: string, at: number, change: { what: string; step?: string }): void {
    const step = change.step ?? doing.get(run)?.step ?? "";
    doing.set(run, { run, what: change.what, step, since: at });
  }

  return {
    observe(event, facts, at) {
      const { run } = facts;
      if (typeof run !== "string") return;
      switch (event) {
        case "run.claimed":
          return set(run, at, { what: "preparing the workspace" });
        case "step.started":
          return set(run, at, { what: "thinking", step: `step ${facts.step}/${facts.maxSteps}` });
        case "step.answering": {
          const before = doing.get(run);
          if (before) doing.set(run, { ...before, what: describeAnswer(facts) });
          return;
        }
        case "model.retried":
          return set(run, at, { what: `the model does not answer (retry ${facts.attempt})` });
        case "model.waiting":
          return set(run, at, { what: `the provider's limits: waits until ${localTime(facts.until)}` });
        case "tool.started":
          return set(run, at, { what: `${facts.tool} ${readableArguments(facts.arguments)}` });
        case "run.finished":
        case "run.waiting":
        case "run.released":
        case "run.lost":
          doing.delete(run);
      }
    },
    describe(now) {
      const [longest] = [...doing.values()].sort((one, other) => one.since - other.since);
      if (!longest) return undefined;
      const many = doing.size > 1 ? [counted(doing.size, "run"), longest.run] : [];
      const seconds = Math.floor((now - longest.since) / 1000) * 1000;
      const took = duration(seconds).replace(".0 s", " s").replace("0 ms", "0 s");
      return [...many, longest.step, took, longest.what].filter(Boolean).join(" · ");
    },
  };
}

/** How far a reply has come. */
function describeAnswer({ reasoningChars, answerChars }: Record<string, unknown>): string {
  const [what, chars] = answerChars === 0 ? ["reasoning", reasoningChars] : ["answering", answerChars];
  return `${what} (${counted(Number(chars), "character")})`;
}
