import { eq } from "drizzle-orm";
import { meta } from "./schema.ts";
import type { StoreContext } from "./store.ts";

/** Settings of the file itself, a row each. */
export function metaVerbs({ db, read, write, now }: StoreContext) {
  function get(key: string): string | undefined {
    return db.select().from(meta).where(eq(meta.key, key)).get()?.value;
  }

  function set(key: string, value: string): void {
    db.insert(meta).values({ key, value }).onConflictDoUpdate({ target: meta.key, set: { value } }).run();
  }

  /** Clocks are set back: what seems to come from the future is no reason to wait for it. */
  function isDue(everyMs: number): boolean {
    const passedMs = now() - Number.parseInt(get("reconciled") ?? "0", 10);
    return !(passedMs >= 0 && passedMs < everyMs);
  }

  return {
    /** Gives the worker the next pass of the reconciler. False: one began less than `everyMs` ago, by whomever. */
    async claimReconcile(workerId: string, everyMs: number): Promise<boolean> {
      // A look without the write lock first: every worker asks once a second.
      if (!(await read(() => isDue(everyMs)))) return false;
      return write(() => {
        if (!isDue(everyMs)) return false;
        set("reconciled", `${now()} ${workerId}`);
        return true;
      });
    },

    /** The incarnation of the queue that has been told of all runs marked as published. */
    getIncarnation(): Promise<string | undefined> {
      return read(() => get("queue_incarnation"));
    },

    setIncarnation(incarnation: string): Promise<void> {
      return write(() => set("queue_incarnation", incarnation));
    },
  };
}
