import { hasData, resolveDataPaths } from "../config/data-directory.ts";
import { openStore, type Store } from "../db/store.ts";
import { ConfigError } from "../errors.ts";
import type { DataPaths } from "../paths.ts";

/** What a look command needs: it makes nothing, and reads no configuration. */
export interface Look {
  paths: DataPaths;
  /** Null where nothing was ever enqueued. */
  store: Store | null;
}

export async function openLook(): Promise<Look> {
  const paths = resolveDataPaths({ cwd: process.cwd(), env: process.env });
  return { paths, store: hasData(paths) ? await openStore({ file: paths.database }) : null };
}

/** Runs a command over the data there is; throws ConfigError where there is none. */
export async function withStore<T>(
  command: (look: { paths: DataPaths; store: Store }) => Promise<T>,
): Promise<T> {
  const { paths, store } = await openLook();
  if (!store) {
    throw new ConfigError(
      `expected runs in ${paths.dataDir}, got none: enqueue a task first, or go to the folder you enqueued it from (or set PAWL_HOME)`,
    );
  }
  try {
    return await command({ paths, store });
  } finally {
    await store.close();
  }
}
