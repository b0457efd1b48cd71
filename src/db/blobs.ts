import { createHash } from "node:crypto";
import { sql } from "drizzle-orm";
import { blobs } from "./schema.ts";
import type { StoreContext } from "./store.ts";

/** Returns the function that stores a text once, whoever needs it, and gives its hash. */
export function blobWriter({ db }: StoreContext): (body: string) => string {
  const insert = db
    .insert(blobs)
    .values({ hash: sql.placeholder("hash"), body: sql.placeholder("body") })
    .onConflictDoNothing()
    .prepare();
  return (body) => {
    const hash = createHash("sha256").update(body).digest("hex");
    insert.run({ hash, body });
    return hash;
  };
}
