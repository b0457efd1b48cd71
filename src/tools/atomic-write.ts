import { mkdir, open, rename, rm, stat } from "node:fs/promises";
import path from "node:path";
import { draftPrefix } from "../paths.ts";

/**
 * Replaces a file as a whole: whoever looks sees the old content or the new. Keeps the mode of an existing file and makes
 * parent folders. `id` names the draft, so that trying again after a crash leaves none behind.
 */
export async function writeAtomically(file: string, content: string, id: string): Promise<void> {
  await mkdir(path.dirname(file), { recursive: true });
  const mode = await stat(file).then(
    (facts) => facts.mode & 0o7777,
    () => undefined,
  );
  const draft = path.join(path.dirname(file), `${draftPrefix}${id}`);
  try {
    const handle = await open(draft, "w");
    try {
      await handle.writeFile(content);
      if (mode !== undefined) await handle.chmod(mode);
    } finally {
      await handle.close();
    }
    await rename(draft, file);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}
