import { createHash } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import path from "node:path";
import { ConfigError } from "../errors.ts";
import type { ImageFile, NewTask, TaskImage } from "./task.ts";

// The files are looked at when a task is made, and stored when it is enqueued, one at a time: a batch may name thousands.

/** Of one image, and of all files of a task: more is refused by the services, with each request. */
const maxImageBytes = 10 * 1024 * 1024;
const maxTaskBytes = 20 * 1024 * 1024;
const maxImages = 20;

type StoredImage = Exclude<TaskImage, { url: string }>;
export type FoundImage = { image: StoredImage } | { problem: string };

/** The images of a task; `find` looks at a file and gives undefined where it cannot be read. */
export function chooseImages(
  given: string[],
  find: (file: string) => FoundImage | undefined,
): { images: TaskImage[]; files: ImageFile[]; problems: string[] } {
  const images: TaskImage[] = [];
  const files: ImageFile[] = [];
  const problems: string[] = [];
  for (const place of given) {
    const found = isUrl(place) ? checkUrl(place) : (find(place) ?? unreadable(place));
    if ("problem" in found) problems.push(`images: ${found.problem}`);
    else images.push(found.image);
    if ("image" in found && "hash" in found.image) files.push({ hash: found.image.hash, file: place });
  }
  const bytes = images.reduce((sum, image) => sum + ("hash" in image ? image.bytes : 0), 0);
  if (bytes > maxTaskBytes)
    problems.push(`images: expected files of at most ${maxTaskBytes} bytes together, got ${bytes}`);
  if (given.length > maxImages) problems.push(`images: expected at most ${maxImages}, got ${given.length}`);
  return { images, files, problems };
}

/** What a file is, by its first bytes. Throws where it cannot be read. */
export function inspectImage(file: string): FoundImage {
  const found = statSync(file);
  // Reading a pipe or a device would never end.
  if (!found.isFile()) return unreadable(file);
  const { size } = found;
  if (size > maxImageBytes)
    return { problem: `expected a file of at most ${maxImageBytes} bytes, got ${size}: ${file}` };
  const content = readFileSync(file);
  const type = typeOf(content);
  if (type === undefined)
    return { problem: `expected a PNG, JPEG, GIF or WebP image, got something else: ${file}` };
  const hash = createHash("sha256").update(dataUrl(content, type)).digest("hex");
  return { image: { hash, type, bytes: content.length, name: path.basename(file) } };
}

/**
 * Stores the images of tasks, each once, before the tasks are: whoever runs them needs no files. `put` stores a text and
 * gives its hash. Throws ConfigError for a file that is another one by now.
 */
export async function storeImages(tasks: NewTask[], put: (text: string) => Promise<string>): Promise<void> {
  const files = new Map(
    tasks.flatMap(({ imageFiles = [] }) => imageFiles.map(({ hash, file }) => [hash, file])),
  );
  for (const [hash, file] of files) {
    const content = readAgain(file);
    if ((await put(dataUrl(content, typeOf(content) ?? ""))) !== hash)
      throw new ConfigError(
        `${file}: expected the image that was there a moment ago, got another: enqueue again`,
      );
  }
}

/** A path and nothing else has no scheme. `C:\…` is none of ours. */
export function isUrl(place: string): boolean {
  return /^([a-z][a-z\d+.-]*:\/\/|data:)/i.test(place);
}

/** The services fetch it themselves. It is stored with the task and shown. */
function checkUrl(place: string): { image: { url: string } } | { problem: string } {
  const url = URL.canParse(place) ? new URL(place) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol))
    return { problem: "expected a path, or a URL with http or https, got another URL" };
  if (url.username || url.password) return { problem: "expected a URL without a password" };
  return { image: { url: place } };
}

function unreadable(file: string): { problem: string } {
  return { problem: `expected a file that can be read, got ${file}` };
}

function readAgain(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new ConfigError(`${file}: expected an image that can be read, got none any more`, { cause: error });
  }
}

function dataUrl(content: Buffer, type: string): string {
  return `data:${type};base64,${content.toString("base64")}`;
}

function typeOf(content: Buffer): StoredImage["type"] | undefined {
  const head = content.subarray(0, 12).toString("latin1");
  if (head.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  if (head.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (/^GIF8[79]a/.test(head)) return "image/gif";
  return /^RIFF.{4}WEBP/s.test(head) ? "image/webp" : undefined;
}
