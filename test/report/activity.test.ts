import { expect, test } from "vitest";
import { createActivities } from "../../src/report/activity.ts";

test("one run: its step, how long, and what it does", () => {
  const activities = createActivities();
  expect(activities.describe(0)).toBeUndefined();
  activities.observe("run.claimed", { run: "r1" }, 0);
  expect(activities.describe(1500)).toBe("1 s · preparing the workspace");
  activities.observe("step.started", { run: "r1", step: 2, maxSteps: 10 }, 2000);
  expect(activities.describe(2100)).toBe("step 2/10 · 0 s · thinking");
  const call = { run: "r1", tool: "bash", arguments: '{"command":"npm\\n test"}' };
  activities.observe("tool.started", call, 3000);
  expect(activities.describe(68_000)).toBe("step 2/10 · 1 min 05 s · bash npm test");
  activities.observe("run.finished", { run: "r1" }, 70_000);
  expect(activities.describe(70_000)).toBeUndefined();
});

test("several runs: how many, and the one that has been at it the longest", () => {
  const activities = createActivities();
  activities.observe("step.started", { run: "r1", step: 1, maxSteps: 5 }, 1000);
  activities.observe("step.started", { run: "r2", step: 4, maxSteps: 5 }, 0);
  expect(activities.describe(9000)).toBe("2 runs · r2 · step 4/5 · 9 s · thinking");
  activities.observe("run.waiting", { run: "r2" }, 9000);
  expect(activities.describe(9000)).toBe("step 1/5 · 8 s · thinking");
});

test("a reply that comes in pieces shows how far it is, and the time runs on", () => {
  const activities = createActivities();
  const answering = { run: "r1", step: 1, reasoningChars: 40, answerChars: 0 };
  activities.observe("step.answering", answering, 0);
  expect(activities.describe(0)).toBeUndefined();
  activities.observe("step.started", { run: "r1", step: 1, maxSteps: 5 }, 0);
  activities.observe("step.answering", answering, 2000);
  expect(activities.describe(3000)).toBe("step 1/5 · 3 s · reasoning (40 characters)");
  activities.observe("step.answering", { ...answering, answerChars: 1 }, 4000);
  expect(activities.describe(4000)).toBe("step 1/5 · 4 s · answering (1 character)");
});
