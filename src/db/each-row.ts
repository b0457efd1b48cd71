/** Rows that one page holds. */
export const pageSize = 500;
/** Pages of one call; what is left comes with the next. */
const maxPages = 200;

/** Hears of a row whose verb failed, and which therefore stays as it is. */
export type OnRowFailure = (runId: string, error: unknown) => void;

/**
 * Gives each run that `load` finds to `act`, page by page in the order of their ids. Each has a savepoint of its own, so
 * one that fails stops no other. Gives how many `act` says it changed.
 */
export async function forEachRun(options: {
  load: (afterId: string) => Promise<{ id: string }[]>;
  act: (id: string) => Promise<boolean>;
  onFailure?: OnRowFailure | undefined;
}): Promise<number> {
  const { load, act, onFailure = () => {} } = options;
  let changed = 0;
  let afterId = "";
  for (let page = 0; page < maxPages; page += 1) {
    const rows = await load(afterId);
    const results = await Promise.allSettled(rows.map(({ id }) => act(id)));
    for (const [index, result] of results.entries()) {
      if (result.status === "rejected") onFailure(rows[index]?.id ?? "", result.reason);
      else if (result.value) changed += 1;
    }
    afterId = rows.at(-1)?.id ?? "";
    if (rows.length < pageSize) break;
  }
  return changed;
}
