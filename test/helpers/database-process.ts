import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";

/** `write` opens the store, runs that many verbs one after another, and closes it; `hold` keeps the write lock. */
export type DatabaseRequest =
  | { do: "write"; file: string; verbs: number }
  | { do: "hold"; file: string; ms: number };

export type DatabaseAnswer = { ok: true } | { ok: false; error: string };

const fixture = fileURLToPath(new URL("../fixtures/database-process.ts", import.meta.url));
const answerTimeoutMs = 30_000;

/** Starts a process that waits for requests; it is ended with the test. `ask` resolves at its next answer. */
export async function startDatabaseProcess() {
  const child = fork(fixture, { execArgv: ["--import", "jiti/register"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  await nextAnswer(child);
  return {
    ask(request: DatabaseRequest): Promise<DatabaseAnswer> {
      const answer = nextAnswer(child);
      child.send(request);
      return answer;
    },
    /** Resolves at the next answer to what was asked before. */
    answer: () => nextAnswer(child),
  };
}

function nextAnswer(child: ChildProcess): Promise<DatabaseAnswer> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("the process did not answer")), answerTimeoutMs);
    const ended = () => reject(new Error("the process ended without an answer"));
    child.once("exit", ended);
    child.once("message", (answer: DatabaseAnswer) => {
      clearTimeout(timer);
      child.off("exit", ended);
      resolve(answer);
    });
  });
}
