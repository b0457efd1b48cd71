import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { execa } from "execa";
import { hasData, resolveDataPaths } from "../config/data-directory.ts";
import { loadConfig } from "../config.ts";
import { inspectSchema, type SchemaState, sqliteVersion } from "../db/inspect.ts";
import { byteSize, findLow, nearestFolder, requireLocalDisk, roomAt } from "../disk.ts";
import { messageOf } from "../errors.ts";
import type { DataPaths } from "../paths.ts";
import { reportStatus } from "../report/status.ts";
import { flat } from "../report/text.ts";
import { openLook } from "./look.ts";

export interface Check {
  name: string;
  ok: boolean;
  detail: string;
}

/** Reading a large database takes its time; what is not read by then is not checked. */
const quickCheckMs = 10_000;

/** What a night's run needs of disk and database. Makes and migrates nothing. */
export async function checkData(): Promise<Check[]> {
  const paths = resolveDataPaths({ cwd: process.cwd(), env: process.env });
  const database = await checkDatabase(paths);
  const isUsable = database.ok && !database.isOlder;
  return [
    await guarded("data", () => checkDisk(paths)),
    { name: "database", ok: database.ok, detail: database.detail },
    await guarded("workers", async () => ({
      ok: true,
      detail: isUsable ? await countWorkers() : "not known",
    })),
  ];
}

async function guarded(name: string, check: () => Promise<Omit<Check, "name">>): Promise<Check> {
  return { name, ...(await check().catch((error) => ({ ok: false, detail: messageOf(error) }))) };
}

async function checkDisk({ dataDir, workspaces }: DataPaths): Promise<Omit<Check, "name">> {
  await requireLocalDisk(dataDir);
  await access(nearestFolder(dataDir), constants.W_OK);
  const least = await loadConfig({ cwd: process.cwd(), env: process.env }).then(
    ({ minFreeBytes }) => minFreeBytes,
    () => null,
  );
  const low = await findLow([dataDir, workspaces], least);
  const { folder, freeBytes } = low ?? { folder: dataDir, ...(await roomAt(dataDir, least)) };
  const detail = `${folder}, ${byteSize(freeBytes)} free`;
  if (low === null) return { ok: true, detail };
  const advice = `workers begin nothing new below ${byteSize(low.minFreeBytes)}: make room, or set minFreeBytes or PAWL_HOME`;
  return { ok: false, detail: `${detail}; ${advice}` };
}

const schemaWords: Record<SchemaState, string> = {
  current: "",
  older: ", written by an older pawl: the next command brings it up to date (pawl backup first)",
  newer: ", written by a newer pawl: update pawl",
};

async function checkDatabase(paths: DataPaths): Promise<Omit<Check, "name"> & { isOlder: boolean }> {
  try {
    const sqlite = `SQLite ${sqliteVersion()}`;
    if (!hasData(paths)) return { ok: true, detail: `${sqlite}, nothing stored yet`, isOlder: false };
    const schema = await inspectSchema(paths.database);
    const verdict = await quickCheck();
    const ok = schema !== "newer" && !verdict.startsWith("damaged");
    return { ok, detail: `${sqlite}, ${verdict}${schemaWords[schema]}`, isOlder: schema === "older" };
  } catch (error) {
    return { ok: false, detail: messageOf(error), isOlder: false };
  }
}

/** In a process of its own, because nothing else can end it. */
async function quickCheck(): Promise<string> {
  const [, main = ""] = process.argv;
  const check = await execa(process.execPath, [main, "doctor", "--quick-check"], {
    reject: false,
    timeout: quickCheckMs,
    forceKillAfterDelay: 100,
    stdin: "ignore",
  });
  if (check.timedOut) return `not read to its end within ${quickCheckMs / 1000} s`;
  if (check.stdout === "ok") return "sound";
  return `damaged (${flat(check.stdout || check.stderr)}): stop the workers, keep the file, and go on with a backup`;
}

async function countWorkers(): Promise<string> {
  const { paths, store } = await openLook();
  try {
    const { workers } = await reportStatus(store, { dataDir: paths.dataDir });
    return workers.length === 0 ? "none is alive (pawl worker starts one)" : `${workers.length} alive`;
  } finally {
    await store?.close();
  }
}
