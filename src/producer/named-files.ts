import { readFileSync, realpathSync, statSync } from "node:fs";
import { type FoundImage, inspectImage } from "./images.ts";

/** Reads what tasks name, each path once however many tasks name it. */
export interface TaskFiles {
  /** Undefined where it cannot be read. */
  read(file: string): string | undefined;
  /** The folder's own path, whatever links lead to it; undefined where there is none. */
  folder(dir: string): string | undefined;
  image(file: string): FoundImage | undefined;
}

export function createTaskFiles(): TaskFiles {
  return {
    read: remember((file) => readFileSync(file, "utf8")),
    image: remember(inspectImage),
    folder: remember((dir) => (statSync(dir).isDirectory() ? realpathSync(dir) : undefined)),
  };
}

function remember<Value>(look: (path: string) => Value): (path: string) => Value | undefined {
  const known = new Map<string, { value: Value | undefined }>();
  return (path) => {
    const found = known.get(path) ?? { value: undefinedOnError(() => look(path)) };
    known.set(path, found);
    return found.value;
  };
}

function undefinedOnError<Value>(look: () => Value): Value | undefined {
  try {
    return look();
  } catch {
    return undefined;
  }
}
