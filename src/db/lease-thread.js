// @ts-check
// The thread of lease.ts. JavaScript, because Node runs it as it is: out of src in tests, out of dist in life. Its connection
// does not wait for the disk as the store's does: a renewal that a power cut takes back is worth nothing anyway.
import { parentPort, workerData } from "node:worker_threads";
import Database from "better-sqlite3";

/** @type {import("./lease.ts").LeaseThreadData} */
const { file, workerId, leaseMs, renewMs, stuckMs, shared } = workerData;
const flags = new Int32Array(shared);
const busyTimeoutMs = 5;
/** Between two tries while others write. */
const retryMs = 10;

const held = "id = @workerId AND stopped_at IS NULL AND lease_until > @now";
const renewal = `UPDATE workers SET lease_until = @now + @leaseMs WHERE ${held}`;
const surrender = `UPDATE workers SET lease_until = 0, detail = 'stuck' WHERE ${held}`;

keep();

function keep() {
  /** @type {Database.Database | undefined} */
  let database;
  let beats = flags[0];
  let beatAt = performance.now();
  let lostAt = Date.now() + leaseMs;
  let isHeld = true;
  while (isHeld && flags[1] === 0) {
    if (flags[0] !== beats) beatAt = performance.now();
    beats = flags[0];
    const isStuck = performance.now() - beatAt > stuckMs;
    let pauseMs = renewMs;
    try {
      database ??= new Database(file, { fileMustExist: true, timeout: busyTimeoutMs });
      const now = Date.now();
      const statement = database.prepare(isStuck ? surrender : renewal);
      const { changes } = statement.run({ workerId, now, ...(isStuck ? {} : { leaseMs }) });
      isHeld = changes === 1 && !isStuck;
      lostAt = now + leaseMs;
    } catch {
      // A busy or full disk: it may pass before the lease does.
      isHeld = Date.now() < lostAt;
      pauseMs = retryMs;
    }
    if (isHeld) Atomics.wait(flags, 1, 0, pauseMs);
  }
  if (!isHeld) parentPort?.postMessage("lost");
  database?.close();
}
