// Works on all that is enqueued, then says how it ended: node examples/worker.js
// Start it as often as you like, at the same time too; a killed one is made up for by the others.
import { createLogger, openPawl } from "pawl";

const pawl = await openPawl({ logger: createLogger("info", (line) => console.error(line)) });
const worker = await pawl.startWorker({ concurrency: 8, drain: true });
process.once("SIGTERM", () => worker.stop());
await worker.done;
const { total, byStatus } = await pawl.getStatus();
console.log(`${total} runs: ${byStatus.succeeded} succeeded, ${byStatus.failed} failed`);
await pawl.close();
