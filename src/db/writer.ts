import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type Database from "better-sqlite3";
import { isDiskFull, type RoomOptions, untilRoom } from "../full-disk.ts";
import { isBusy } from "./sqlite-error.ts";

/** Verbs that share one commit at the most. */
const maxVerbsPerCommit = 256;
const busyPauseMs = { min: 1, max: 12 };

interface Pending {
  work: () => unknown;
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
}

/** Runs verbs in transactions. Verbs that arrive together share one commit; one that fails takes none of the others along. */
export interface Writer {
  /**
   * From now on a full disk is waited for instead of failing the verbs, until the signal is aborted: then they fail with its
   * reason. `onFull` is told once each time a wait begins.
   */
  waitForRoom(options: Omit<RoomOptions, "folder">): void;
  /** Commits so far: SQLite's own counter leaves out those of its own connection. */
  commits(): number;
  /** Resolves once the work is committed. `work` is synchronous, touches only the database, and may be run again. */
  write<T>(work: () => T): Promise<T>;
  /** Resolves when everything handed in so far is committed or rejected. */
  settled(): Promise<void>;
}

export function createWriter(sqlite: Database.Database): Writer {
  const statements = {
    begin: sqlite.prepare("BEGIN IMMEDIATE"),
    commit: sqlite.prepare("COMMIT"),
    rollback: sqlite.prepare("ROLLBACK"),
    savepoint: sqlite.prepare("SAVEPOINT verb"),
    undo: sqlite.prepare("ROLLBACK TO verb"),
    release: sqlite.prepare("RELEASE verb"),
  };
  const pending: Pending[] = [];
  let flushing: Promise<void> | undefined;
  const folder = path.dirname(sqlite.name);
  let room: RoomOptions | undefined;
  let commits = 0;

  async function flush(): Promise<void> {
    while (pending.length > 0) {
      // One turn of the event loop lets verbs of other runs join this commit.
      await new Promise(setImmediate);
      const verbs = pending.splice(0, maxVerbsPerCommit);
      try {
        // Verbs touch only the database, so what a full disk rolled back is simply run again when there is room.
        const commit = () => retryBusy(() => commitTogether(verbs));
        const settle = await (room === undefined ? commit() : untilRoom(commit, room));
        commits += 1;
        for (const done of settle) done();
      } catch (error) {
        for (const verb of verbs) verb.reject(error);
      }
    }
    flushing = undefined;
  }

  /** All verbs nearly always succeed. Only where one fails are savepoints worth their price, a statement's each. */
  function commitTogether(verbs: Pending[]): (() => void)[] {
    try {
      return inTransaction(() => verbs.map(runBare));
    } catch (error) {
      if (isOfFile(error)) throw error;
      return inTransaction(() => verbs.map(runInSavepoint));
    }
  }

  function inTransaction<T>(work: () => T): T {
    statements.begin.run();
    try {
      const value = work();
      statements.commit.run();
      return value;
    } catch (error) {
      if (sqlite.inTransaction) statements.rollback.run();
      throw error;
    }
  }

  function runBare(verb: Pending): () => void {
    const value = verb.work();
    return () => verb.resolve(value);
  }

  function runInSavepoint(verb: Pending): () => void {
    statements.savepoint.run();
    try {
      const settle = runBare(verb);
      statements.release.run();
      return settle;
    } catch (error) {
      // SQLite itself gave the transaction up (full disk, I/O error): nothing of this commit stands.
      if (!sqlite.inTransaction || isOfFile(error)) throw error;
      statements.undo.run();
      statements.release.run();
      return () => verb.reject(error);
    }
  }

  /** A fault that no verb is to blame for. */
  function isOfFile(error: unknown): boolean {
    return isBusy(error) || isDiskFull(error, folder);
  }

  return {
    write<T>(work: () => T): Promise<T> {
      return new Promise<T>((resolve, reject) => {
        pending.push({ work, resolve: resolve as (value: unknown) => void, reject });
        flushing ??= flush();
      });
    },
    waitForRoom(options) {
      room = { ...options, folder };
    },
    commits: () => commits,
    async settled() {
      await flushing;
    },
  };
}

/** Runs `work` until the file's write lock is free, waiting asynchronously with jitter: fair, and nothing freezes. */
export async function retryBusy<T>(work: () => T): Promise<T> {
  for (;;) {
    try {
      return work();
    } catch (error) {
      if (!isBusy(error)) throw error;
      await sleep(busyPauseMs.min + Math.random() * (busyPauseMs.max - busyPauseMs.min));
    }
  }
}
