import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { createInterface } from "node:readline";
import { nativeProtocol } from "../src/agent/protocols/native.ts";
import { openRunLog } from "../src/agent/run-log.ts";
import { openStore } from "../src/db/store.ts";
import type { Model, ModelRequest } from "../src/model/model.ts";
import { openaiModel } from "../src/model/openai.ts";
import { profileOf } from "../src/model/profiles.ts";
import { claimRuns } from "./agents.ts";
import { openFloor } from "./floor.ts";
import { median } from "./history.ts";

const calls = 400;
/** Not counted: code is compiled, and connections are opened. */
const warmUpCalls = 100;
/** A call of the client may take so much longer than a bare fetch, in milliseconds. */
const toleranceMs = 2;

/**
 * What our client adds to a request: the same server is asked by turns with a bare fetch and with all that a step does.
 * What the disk needs for the commit is measured between them, since it is the machine's and not the client's.
 */
export async function measureClient(folder: string) {
  const server = await startServer();
  const store = await openStore({ file: path.join(folder, "client.db") });
  const [row] = await claimRuns(store, 1);
  if (!row) throw new Error("nothing to claim");
  const claim = { runId: row.id, workerId: row.ownerId ?? "", epoch: row.epoch };
  const protocol = nativeProtocol(profileOf(server.url));
  const log = openRunLog({ store, claim, protocol, activeMs: () => 0 });
  const hash = await store.begin(claim, {
    prompt: "{}",
    spec: row.spec,
    model: "m",
    baseCommit: null,
    baseTree: null,
  });
  log.start({ system: "You are measured.", tools: [] }, hash, protocol.renderNote("step"));
  await log.committed();
  const model = openaiModel({ baseUrl: server.url, apiKey: null });
  const floor = await openFloor(path.join(folder, "client-floor.db"), ["r"]);
  const bare: number[] = [];
  const commits: number[] = [];
  const ours: number[] = [];
  for (let call = 0; call < warmUpCalls + calls; call += 1) {
    bare.push(await timed(() => fetchBare(server.url)));
    commits.push(await timed(async () => floor.writeStep("r", call + 1)));
    const n = log.plan("step", "m");
    await log.committed();
    ours.push(
      await timed(async () => {
        log.appendReply(n, await ask(model), () => "pure");
        await log.committed();
      }),
    );
    log.appendNote("go on");
  }
  floor.close();
  await store.close();
  server.stop();
  const medianOf = (times: number[]) => median(times.slice(warmUpCalls));
  const [fetchMs, commitMs, clientMs] = [medianOf(bare), medianOf(commits), medianOf(ours)];
  const shown = [clientMs, fetchMs, commitMs].map((ms) => ms.toFixed(2));
  return {
    name: `a request, parsed, validated and stored / a bare fetch, a bare commit and ${toleranceMs} ms`,
    ratio: clientMs / (fetchMs + commitMs + toleranceMs),
    bound: { atMost: 1 },
    detail: `${shown[0]} against ${shown[1]} and ${shown[2]} ms, medians of ${calls}`,
  };
}

const request: ModelRequest = { model: "m", messages: [{ role: "user", content: "x".repeat(20_000) }] };

function ask(model: Model) {
  return model.ask(request, new AbortController().signal);
}

async function fetchBare(url: string): Promise<void> {
  const response = await fetch(`${url}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...request, stream: true }),
  });
  await response.text();
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

/** In a process of its own, so that its work is not counted; it streams a reply of about fifty pieces. */
async function startServer(): Promise<{ url: string; stop(): void }> {
  const child = spawn(process.execPath, ["--input-type=module", "--eval", serverCode], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [port] = await once(createInterface({ input: child.stdout }), "line");
  return { url: `http://127.0.0.1:${port}/v1`, stop: () => void child.kill() };
}

const serverCode = `
import { createServer } from "node:http";
const chunk = (delta, finish_reason = null) =>
  "data: " + JSON.stringify({ id: "c", choices: [{ index: 0, delta, finish_reason }] }) + "\\n\\n";
const call = { index: 0, id: "c1", type: "function", function: { name: "noop", arguments: "" } };
const piece = { index: 0, function: { arguments: " " } };
const body = [
  chunk({ role: "assistant", content: null, tool_calls: [call] }),
  ...Array.from({ length: 50 }, () => chunk({ tool_calls: [piece] })),
  chunk({ tool_calls: [{ index: 0, function: { arguments: "{}" } }] }),
  chunk({}, "tool_calls"),
  "data: [DONE]\\n\\n",
].join("");
const server = createServer((request, response) => {
  request.resume();
  request.on("end", () => response.writeHead(200, { "content-type": "text/event-stream" }).end(body));
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
`;
