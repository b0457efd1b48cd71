import { and, eq, sql } from "drizzle-orm";
import { LeaseLostError } from "../errors.ts";
import type { Claim } from "./claim.ts";
import { runs } from "./schema.ts";
import type { StoreContext } from "./store.ts";

const { placeholder } = sql;

/**
 * True for the row that the claim still owns. Every write of a run carries it. The status is a literal: where an index
 * is partial, SQLite prepares a statement with a bound one anew at every run, which costs more than the statement itself.
 */
export function isOwned() {
  return and(
    eq(runs.id, placeholder("runId")),
    eq(runs.epoch, placeholder("epoch")),
    sql`${runs.status} = 'running'`,
    sql`EXISTS (SELECT 1 FROM workers WHERE workers.id = ${runs.ownerId} AND lease_until > ${placeholder("now")})`,
  );
}

/** What a fenced statement throws when it found nothing to change. */
export function lostLease(claim: Claim): LeaseLostError {
  return new LeaseLostError(`run ${claim.runId} is no longer owned by epoch ${claim.epoch}`);
}

/** Returns the function that says whether a claim still holds, inside the caller's transaction. */
export function ownershipCheck({
  db,
}: Pick<StoreContext, "db">): (claim: Claim & { now: number }) => boolean {
  const find = db.select({ id: runs.id }).from(runs).where(isOwned()).prepare();
  return (claim) => find.get({ ...claim }) !== undefined;
}
