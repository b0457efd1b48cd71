import { randomUUID } from "node:crypto";
import { rename, rm } from "node:fs/promises";

/**
 * Removes a file or folder, if it is there, under another name: whoever is stopped in the middle of it and wakes later goes
 * on with that, not with what another has put in its place.
 */
export async function removeAtOnce(target: string): Promise<void> {
  const aside = `${target}.${randomUUID()}.tmp`;
  try {
    await rename(target, aside);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return;
    throw error;
  }
  await rm(aside, { recursive: true, force: true });
}
