// Adds a task for each repository: node examples/producer.js ./one ./two
// The keys make it safe to run again: what is there already is left alone.
import path from "node:path";
import { openPawl } from "pawl";

const repositories = process.argv.slice(2);
const pawl = await openPawl();
const results = await pawl.enqueue(
  repositories.map((repo) => ({
    prompt: "Write a README.md that says what this project does and how to run its tests.",
    repo,
    key: path.basename(repo),
    batch: "readme",
    maxSteps: 40,
  })),
);
for (const { id, key, created } of results) console.log(id, key, created ? "enqueued" : "already there");
await pawl.close();
