import { openPawl } from "../pawl.ts";
import { demoModel } from "./demo-repositories.ts";

// The demo's worker: a process of its own, so that it can be killed.
const [cwd = "", requests = "", effects = ""] = process.argv.slice(2);
const pawl = await openPawl({ cwd, model: demoModel({ requests, effects }) });
const worker = await pawl.startWorker({ concurrency: 5, drain: true });
await worker.done;
await pawl.close();
