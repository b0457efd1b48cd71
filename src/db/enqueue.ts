import { createHash } from "node:crypto";
import { and, eq, sql } from "drizzle-orm";
import type { EnqueueResult, NewTask, TaskSpec } from "../producer/task.ts";
import { blobWriter } from "./blobs.ts";
import { recordEvent } from "./events.ts";
import { laneOf, laneVerbs } from "./lanes.ts";
import { batches, runs } from "./schema.ts";
import type { StoreContext } from "./store.ts";

/** Batch of all tasks that name none. */
const defaultBatch = "b0";

const { placeholder } = sql;

export function enqueueVerbs(context: StoreContext) {
  const { db, write, now, newId } = context;
  const lanes = laneVerbs(context);
  const record = recordEvent(context);
  const saveBlob = blobWriter(context);
  const findBatch = db
    .select({ id: batches.id })
    .from(batches)
    .where(eq(batches.name, placeholder("name")))
    .prepare();
  const findKey = db
    .select({ id: runs.id, specHash: runs.specHash })
    .from(runs)
    .where(
      and(eq(runs.batchId, placeholder("batchId")), eq(runs.key, placeholder("key")), sql`superseded = 0`),
    )
    .prepare();
  const insertRun = db
    .insert(runs)
    .values({
      id: placeholder("id"),
      batchId: placeholder("batchId"),
      key: placeholder("key"),
      spec: placeholder("spec"),
      specHash: placeholder("specHash"),
      repo: placeholder("repo"),
      lane: placeholder("lane"),
      model: placeholder("model"),
      priority: placeholder("priority"),
      ready: placeholder("ready"),
      createdAt: placeholder("createdAt"),
    })
    .prepare();

  function batchId(name: string | null): string {
    if (name === null) return defaultBatch;
    const found = findBatch.get({ name });
    if (found) return found.id;
    const id = newId();
    db.insert(batches).values({ id, name, createdAt: now() }).run();
    return id;
  }

  function enqueueOne(task: NewTask, batch: string): EnqueueResult {
    const specHash = hashSpec(task.spec);
    const existing = task.key === null ? undefined : findKey.get({ batchId: batch, key: task.key });
    if (existing) {
      const changed = existing.specHash !== specHash;
      return {
        id: existing.id,
        key: task.key,
        created: false,
        ...(changed ? { changed: true as const } : {}),
      };
    }
    const id = newId();
    const lane = laneOf(task.spec);
    insertRun.run({
      id,
      batchId: batch,
      key: task.key,
      spec: JSON.stringify(task.spec),
      specHash,
      repo: task.spec.repo,
      lane,
      model: task.spec.model,
      priority: task.priority,
      ready: lanes.enter(lane, task.priority),
      createdAt: now(),
    });
    return { id, key: task.key, created: true };
  }

  /** One event a batch; it names the run where there is only one. */
  function recordEnqueued(batch: string, results: EnqueueResult[]): void {
    const created = results.filter((result) => result.created);
    record({
      kind: "enqueued",
      batchId: batch,
      runId: created.length === 1 ? created[0]?.id : undefined,
      data: { created: created.length, existing: results.length - created.length },
    });
  }

  return {
    /** Stores a text that tasks name by its hash, which is given back; one that is there already stays. */
    putBlob(text: string): Promise<string> {
      return write(() => saveBlob(text));
    },

    /** Adds tasks, all or none. A key that exists in its batch names the run that has it; that run is untouched. */
    enqueue(tasks: NewTask[]): Promise<EnqueueResult[]> {
      return write(() => {
        const ids = new Map<string | null, string>();
        const results: EnqueueResult[] = [];
        for (const task of tasks) {
          const batch = ids.get(task.batch) ?? batchId(task.batch);
          ids.set(task.batch, batch);
          results.push(enqueueOne(task, batch));
        }
        for (const [name, batch] of ids) {
          const ofBatch = results.filter((_, index) => tasks[index]?.batch === name);
          recordEnqueued(batch, ofBatch);
        }
        return results;
      });
    },
  };
}

function hashSpec(spec: TaskSpec): string {
  const sorted = Object.fromEntries(Object.entries(spec).sort(([a], [b]) => (a < b ? -1 : 1)));
  return createHash("sha256").update(JSON.stringify(sorted)).digest("hex");
}
