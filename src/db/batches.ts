import { eq } from "drizzle-orm";
import { ConfigError } from "../errors.ts";
import { batches } from "./schema.ts";
import type { StoreContext } from "./store.ts";

/** The id of the batch with this name; throws ConfigError if there is none. */
export function requireBatch(db: StoreContext["db"], name: string): string {
  const row = db.select({ id: batches.id }).from(batches).where(eq(batches.name, name)).get();
  if (row) return row.id;
  throw new ConfigError(`expected the name of a batch, got ${name}: no tasks were enqueued under it`);
}
