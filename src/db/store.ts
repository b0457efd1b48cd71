import { randomInt } from "node:crypto";
import type Database from "better-sqlite3";
import type { BetterSQLite3Database } from "drizzle-orm/better-sqlite3";
import { budgetVerbs } from "./budgets.ts";
import { claimVerbs } from "./claim.ts";
import { countVerbs } from "./counts.ts";
import { enqueueVerbs } from "./enqueue.ts";
import { finishVerbs } from "./finish.ts";
import { forkVerbs } from "./fork.ts";
import { freedVerbs } from "./freed.ts";
import { gateVerbs } from "./gates.ts";
import { hintVerbs } from "./hints.ts";
import { logVerbs } from "./log.ts";
import { metaVerbs } from "./meta.ts";
import { type Connection, explainDatabase, openConnection } from "./open.ts";
import { promptChangeVerbs } from "./prompt-change.ts";
import { readVerbs } from "./read.ts";
import { runEventVerbs } from "./run-events.ts";
import { steerVerbs } from "./steer.ts";
import { stepVerbs } from "./steps.ts";
import { stopVerbs } from "./stop.ts";
import { workerVerbs } from "./workers.ts";
import { createWriter, retryBusy } from "./writer.ts";

/** What every verb needs. Clock and ids are parameters, so that tests decide them. */
export interface StoreContext {
  sqlite: Database.Database;
  db: BetterSQLite3Database;
  /** Stamp of the newest migration that this pawl knows. */
  newestMigration: number;
  /** Runs a read; tried again in the rare moments in which the file cannot be read (another process repairs it). */
  read<T>(work: () => T): Promise<T>;
  /** Resolves once the work is committed. */
  write<T>(work: () => T): Promise<T>;
  /** Commits of this connection so far. */
  commits(): number;
  /** Epoch milliseconds. */
  now(): number;
  newId(): string;
}

export interface StoreOptions {
  file: string;
  now?: () => number;
  newId?: () => string;
}

/**
 * The database is the truth, and these verbs are all that changes it. Each verb is one transaction; verbs that arrive
 * together share one commit. Verbs that take a claim change nothing and throw LeaseLostError once the claim is not the
 * run's newest or its worker's lease has run out.
 */
export type Store = Awaited<ReturnType<typeof openStore>>;

export async function openStore(options: StoreOptions) {
  const { file } = options;
  const connection = await openConnection(file);
  try {
    return verbsOf(connection, options);
  } catch (error) {
    connection.sqlite.close();
    throw explainDatabase(error, file);
  }
}

function verbsOf(connection: Connection, { file, newId, now = Date.now }: StoreOptions) {
  const writer = createWriter(connection.sqlite);
  const explained = <T>(work: Promise<T>) =>
    work.catch((error: unknown): never => {
      throw explainDatabase(error, file);
    });
  const context: StoreContext = {
    ...connection,
    read: (work) => explained(retryBusy(work)),
    write: (work) => explained(writer.write(work)),
    commits: writer.commits,
    now,
    newId: newId ?? createIds(now),
  };
  return {
    ...enqueueVerbs(context),
    ...claimVerbs(context),
    ...logVerbs(context),
    ...finishVerbs(context),
    ...steerVerbs(context),
    ...workerVerbs(context),
    ...hintVerbs(context),
    ...metaVerbs(context),
    ...readVerbs(context),
    ...countVerbs(context),
    ...stepVerbs(context),
    ...runEventVerbs(context),
    ...forkVerbs(context),
    ...promptChangeVerbs(context),
    ...stopVerbs(context),
    ...freedVerbs(context),
    ...gateVerbs(context),
    ...budgetVerbs(context),
    now,
    waitForRoom: writer.waitForRoom,
    requireInPlace: connection.requireInPlace,
    /** Finishes what was handed in, then closes the file. */
    async close(): Promise<void> {
      await writer.settled();
      connection.sqlite.close();
    },
  };
}

const alphabet = "0123456789abcdefghjkmnpqrstvwxyz";

/** Ids that sort by time: nine characters of milliseconds, then five that count on within one millisecond. */
function createIds(now: () => number): () => string {
  const span = alphabet.length ** 5;
  let lastAt = 0;
  let tail = 0;
  return () => {
    const at = Math.max(now(), lastAt);
    // Half of the span is left to count on within the millisecond.
    tail = at === lastAt ? tail + 1 : randomInt(span / 2);
    lastAt = at;
    return encode(at, 9) + encode(tail, 5);
  };
}

function encode(value: number, length: number): string {
  let text = "";
  for (let rest = value; text.length < length; rest = Math.floor(rest / alphabet.length)) {
    text = alphabet[rest % alphabet.length] + text;
  }
  return text;
}
