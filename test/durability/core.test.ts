import { describe, expect, test } from "vitest";
import { type Mutation, makeMutant } from "../helpers/mutant.ts";
import { broken, checkAnswers, checkCommits, checkEpoch, checkLease, checkStartRow } from "./core-checks.ts";

describe("pawl as it is", () => {
  test("acts no more for a lease that has run out, though nobody took the run", () => checkLease());
  test("acts no more under an epoch that is over, though the run goes on", () => checkEpoch());
  test("runs a command once whose worker is killed while it runs", () => checkStartRow());
  test("has on disk what it is about to do, before it does it", () => checkCommits());
  test("answers the calls that a killed worker left open", () => checkAnswers());
});

interface Row extends Mutation {
  /** What is left out. */
  title: string;
  check: (main: string) => Promise<void>;
  /** What the check must say. */
  says: string;
}

/** Rules that are taken out of a copy of the built code, one at a time; the check beside each must fail for it. */
const mutations: Row[] = [
  {
    title: "the lease in the fence",
    file: "db/fence.js",
    pattern: /, sql `EXISTS \(SELECT 1 FROM workers [^`]*`/,
    replacement: "",
    check: checkLease,
    says: broken.lease,
  },
  {
    title: "the epoch in the fence",
    file: "db/fence.js",
    pattern: /eq\(runs\.epoch, placeholder\("epoch"\)\),/,
    replacement: "",
    check: checkEpoch,
    says: broken.epoch,
  },
  {
    title: "the look at the fence before a call",
    file: "agent/act.js",
    pattern:
      /await agent\.log\.confirmOwned\(\);(?=\s+await agent\.ensureWorkspace\?\.\(\);\s+const settled)/,
    replacement: "",
    check: checkEpoch,
    says: broken.epoch,
  },
  {
    title: "the start row of a call",
    file: "agent/act.js",
    pattern: /if \(needsStartRow\(agent, call\)\)\s+agent\.log\.startCall\(call\);/,
    replacement: ";",
    check: checkStartRow,
    says: broken.startRow,
  },
  {
    title: "the commit before a call",
    file: "agent/act.js",
    pattern: /await agent\.log\.committed\(\);(?=\s+if \(group)/,
    replacement: "",
    check: checkCommits,
    says: broken.startCommitted,
  },
  {
    title: "the commit before a call that a new owner runs",
    file: "agent/act.js",
    pattern: /await agent\.log\.committed\(\);(?=\s+failpoint\("call\.started"\);\s+return)/,
    replacement: "",
    check: checkCommits,
    says: broken.startedAgainCommitted,
  },
  {
    title: "the commit before a request",
    file: "agent/request.js",
    pattern: /await log\.committed\(\);(?=\s+const refusal = log\.refusal\(\))/,
    replacement: "",
    check: checkCommits,
    says: broken.planCommitted,
  },
  {
    title: "the answers to open calls",
    file: "agent/run-log.js",
    pattern: /applyOpenCalls\(state, tail\.openCalls\);/,
    replacement: "state.pending = [];",
    check: checkAnswers,
    says: broken.answered,
  },
];

describe("these tests turn red without", () => {
  test.each(mutations)("$title", async ({ check, says, ...mutation }) => {
    await expect(check(makeMutant(mutation))).rejects.toThrow(says);
  });
});
