import { expect, it, test } from "vitest";
import { ModelError } from "../../src/errors.ts";
import { type Fault, type FaultKind, faulty } from "../../src/model/faulty.ts";
import { call, say, scriptedModel } from "../../src/model/scripted.ts";
import { runAgent } from "../../src/run-agent.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const request = { model: "m", messages: [{ role: "user" as const, content: "x" }] };
const never = new AbortController().signal;
const good = () => scriptedModel(() => say("done"));

async function failureOf(fault: Fault): Promise<unknown> {
  return faulty(good(), [fault])
    .ask(request, never)
    .catch((error: unknown) => error);
}

it.each<[Fault, Partial<ModelError>]>([
  ["rate_limit", { kind: "retry", retryAfterMs: 1_000, isLimit: true, mayBeBilled: false }],
  [
    { kind: "rate_limit", retryAfterMs: 5 },
    { kind: "retry", retryAfterMs: 5 },
  ],
  ["server_error", { kind: "retry", mayBeBilled: false }],
  ["unreachable", { kind: "retry", mayBeBilled: false }],
  ["garbage", { kind: "retry", mayBeBilled: true }],
  ["cut_stream", { kind: "retry", mayBeBilled: true }],
  ["refused_key", { kind: "auth" }],
  ["quota", { kind: "quota", retryAfterMs: undefined }],
  [
    { kind: "quota", retryAfterMs: 7 },
    { kind: "quota", retryAfterMs: 7 },
  ],
  ["overflow", { kind: "overflow" }],
  ["refused", { kind: "refused" }],
])("the fault %j is an error as the real client throws it", async (fault, expected) => {
  const error = await failureOf(fault);
  expect(error).toBeInstanceOf(ModelError);
  expect(error).toMatchObject(expected);
});

it("a request is answered by the model itself where the plan has nothing for it", async () => {
  const model = good();
  const broken = faulty(model, [undefined, "server_error"]);
  expect((await broken.ask(request, never)).message.content).toBe("done");
  await expect(broken.ask(request, never)).rejects.toThrow("503");
  expect((await broken.ask(request, never)).message.content).toBe("done");
  expect(model.callCount()).toBe(2);
});

it("a plan may decide by the request, and an error of one's own is thrown as it is", async () => {
  const own = new Error("mine");
  const broken = faulty(good(), ({ messages }, n) => (n === 1 && messages.length === 1 ? own : undefined));
  await expect(broken.ask(request, never)).rejects.toBe(own);
  expect((await broken.ask(request, never)).finishReason).toBe("stop");
});

it("a stream is cut after the model was asked: the reply is lost, not the request", async () => {
  const model = good();
  await expect(faulty(model, ["cut_stream"]).ask(request, never)).rejects.toThrow("middle of the reply");
  expect(model.callCount()).toBe(1);
});

it("a request that hangs ends with the reason of its abort", async () => {
  const controller = new AbortController();
  const hanging = faulty(good(), ["hang"]).ask(request, controller.signal);
  const reason = new Error("given up");
  controller.abort(reason);
  await expect(hanging).rejects.toBe(reason);
});

async function runWith(faults: FaultKind[] | { kind: "rate_limit"; retryAfterMs: number }[]) {
  const cwd = temporaryFolder();
  const env = { PATH: process.env.PATH, HOME: cwd, PAWL_HOME: `${cwd}/data` };
  const model = faulty(
    scriptedModel(({ messages }) =>
      messages.at(-1)?.role === "tool" ? say("done") : call("list_files", {}),
    ),
    faults,
  );
  return runAgent({ prompt: "x" }, { cwd, env, model });
}

test("an agent is told of replies that are of no use, and goes on", async () => {
  const run = await runWith(["empty_reply", "cut_reply", "broken_call"]);
  expect(run).toMatchObject({ status: "succeeded", result: "done", steps: 4 });
});

test("a request that a limit refuses is made again, without a step of its own", async () => {
  const limit = { kind: "rate_limit" as const, retryAfterMs: 1 };
  expect(await runWith([limit, limit])).toMatchObject({ status: "succeeded", steps: 2 });
});

test("a refused key makes the run wait, a refused task ends it", async () => {
  expect(await runWith(["refused_key"])).toMatchObject({ status: "waiting", waiting: { kind: "auth" } });
  expect(await runWith(["refused"])).toMatchObject({ status: "failed", reason: "refused" });
});

it("a fault that there is not is refused with those there are", async () => {
  const bogus = faulty(good(), ["bogus" as FaultKind]);
  await expect(bogus.ask(request, never)).rejects.toThrow(/expected a fault \(rate_limit, .*got "bogus"/);
});
