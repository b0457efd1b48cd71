import type { Store } from "./db/store.ts";
import { ConfigError } from "./errors.ts";
import type { TaskImage } from "./producer/task.ts";

/** The images of a task that are stored, as data URLs by hash. Throws ConfigError where one is not there. */
export async function loadImages(
  store: Pick<Store, "getBlob">,
  images: TaskImage[] = [],
): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const image of images) {
    if ("url" in image) continue;
    const dataUrl = await store.getBlob(image.hash);
    if (dataUrl === undefined)
      throw new ConfigError(
        `expected the image ${image.name} in the database, got none: enqueue the task anew`,
      );
    found.set(image.hash, dataUrl);
  }
  return found;
}
