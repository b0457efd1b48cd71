import { expect, onTestFinished, test } from "vitest";
import { commandLine } from "../helpers/command-line.ts";
import { completion, type RawResponse, startRawServer } from "../helpers/raw-server.ts";

const done = completion({ role: "assistant", content: "done" });

async function serve(answer: (requestNumber: number) => RawResponse) {
  const server = await startRawServer(answer);
  onTestFinished(() => server.close());
  return server;
}

const keysOf = ({ requests }: Awaited<ReturnType<typeof serve>>) =>
  requests.map(({ headers }) => headers.authorization);

test.each([401, 403])(
  "a run whose key is refused (%i) waits for a person, and goes on with the right one",
  async (status) => {
    const server = await serve((n) =>
      n > 1 ? { body: done } : { status, body: { error: { message: "no" } } },
    );
    const env = { OPENAI_BASE_URL: server.url, OPENAI_MODEL: "m", OPENAI_API_KEY: "wrong" };
    const { pawl, json } = commandLine({ env });
    const run = await pawl(["run", "x", "--key", "k"]);
    expect(run.code).toBe(1);
    expect(run.stderr).toContain("pawl resume");
    const note = expect.stringContaining(`check OPENAI_API_KEY for ${server.url}`);
    expect(await json(["show", "k"])).toMatchObject([{ status: "waiting", waiting: { kind: "auth", note } }]);
    expect(await json(["logs", "k"])).toContainEqual(
      expect.objectContaining({ kind: "waiting", data: expect.objectContaining({ kind: "auth", note }) }),
    );
    await pawl(["resume", "k"]);
    expect((await pawl(["worker", "--drain"], { env: { OPENAI_API_KEY: "right" } })).code).toBe(0);
    expect(await json(["show", "k"])).toMatchObject([{ status: "succeeded", result: "done" }]);
    expect(keysOf(server)).toEqual(["Bearer wrong", "Bearer right"]);
  },
);

test("a web page in the place of the model ends the run at once, and says what stands there", async () => {
  const server = await serve(() => ({ body: "<!doctype html><title>Sign in to the proxy</title>" }));
  const { pawl, json } = commandLine({ env: { OPENAI_BASE_URL: server.url, OPENAI_MODEL: "m" } });
  expect((await pawl(["run", "x", "--key", "k"])).code).toBe(1);
  expect(await json(["show", "k"])).toMatchObject([
    {
      reason: "model_error",
      error: `expected a chat completion from ${server.url}, got an HTML page (Sign in to the proxy) (check OPENAI_BASE_URL)`,
    },
  ]);
  expect(server.requests).toHaveLength(1);
});

test("a server that does not answer within requestTimeoutMs is asked again, and the wait is said", async () => {
  const server = await serve((n) => (n === 1 ? { hang: true } : { body: done }));
  const files = { "pawl.config.json": '{ "requestTimeoutMs": 5000 }' };
  const { pawl, json } = commandLine({ files, env: { OPENAI_BASE_URL: server.url, OPENAI_MODEL: "m" } });
  await pawl(["enqueue", "x"]);
  const { stderr, code } = await pawl(["worker", "--drain"]);
  expect(code).toBe(0);
  const [{ id } = {}] = await json(["list"]);
  expect(stderr).toMatch(
    new RegExp(
      `${id} the model is asked again in .* \\(retry 1 of 7\\): no complete reply from .*within 5000 ms`,
    ),
  );
  expect(server.requests).toHaveLength(2);
});

test("a run goes on at the service where it began, and gets no key that was set for another", async () => {
  const first = await serve((n) =>
    n === 1 ? { status: 401, body: { error: { message: "no" } } } : { body: done },
  );
  const second = await serve(() => ({ body: done }));
  const { pawl, json } = commandLine({ env: { OPENAI_BASE_URL: first.url, OPENAI_MODEL: "m" } });
  await pawl(["run", "x", "--key", "k"]);
  await pawl(["resume", "k"]);
  const env = { OPENAI_BASE_URL: second.url, OPENAI_API_KEY: "of-the-second" };
  expect((await pawl(["worker", "--drain"], { env })).code).toBe(0);
  expect(await json(["show", "k"])).toMatchObject([{ status: "succeeded" }]);
  expect([keysOf(first), keysOf(second)]).toEqual([[undefined, undefined], []]);
});
