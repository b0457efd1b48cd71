import { createHash } from "node:crypto";
import { type FileHandle, open } from "node:fs/promises";
import { cleanOutput, isBinary, sampleBytes } from "./clean-text.ts";
import { truncate } from "./truncate.ts";

/** Of a longer output only this much of its head and of its tail is read. */
const windowBytes = 512 * 1024;

/** What the model sees of a command's output: clean text of at most `maxChars`, with the path of the whole where it is cut. */
export async function readOutput(file: string, maxChars: number): Promise<string> {
  const handle = await open(file).catch(() => undefined);
  if (handle === undefined) return "";
  try {
    const { size } = await handle.stat();
    if (isBinary(await readBytes(handle, { from: 0, length: sampleBytes }))) {
      return `[binary output, ${await describeBinary(handle, size)}, not shown; it is in ${file}]`;
    }
    const hint = `the whole output is in ${file}, read_file can page it`;
    if (size <= 2 * windowBytes)
      return truncate(await readText(handle, { from: 0, length: size }), { maxChars, hint });
    return await readEnds(handle, { size, maxChars, hint });
  } finally {
    await handle.close();
  }
}

/** What it is by its first bytes where they say so, and what tells it from other outputs. */
async function describeBinary(handle: FileHandle, size: number): Promise<string> {
  const start = await readBytes(handle, { from: 0, length: 8 });
  const type = fileTypes.find(({ magic }) => start.subarray(0, magic.length).equals(magic))?.name;
  const hash = createHash("sha256");
  for await (const chunk of handle.createReadStream({ start: 0, autoClose: false })) hash.update(chunk);
  return `${type === undefined ? "" : `${type}, `}${size} bytes, sha256 ${hash.digest("hex")}`;
}

const fileTypes = [
  { name: "PNG image", magic: Buffer.from("\x89PNG", "latin1") },
  { name: "JPEG image", magic: Buffer.from("\xff\xd8\xff", "latin1") },
  { name: "GIF image", magic: Buffer.from("GIF8") },
  { name: "PDF", magic: Buffer.from("%PDF-") },
  { name: "zip archive", magic: Buffer.from("PK\x03\x04", "latin1") },
  { name: "gzip", magic: Buffer.from("\x1f\x8b", "latin1") },
  { name: "zstd", magic: Buffer.from("\x28\xb5\x2f\xfd", "latin1") },
  { name: "program (ELF)", magic: Buffer.from("\x7fELF", "latin1") },
];

async function readEnds(
  handle: FileHandle,
  options: { size: number; maxChars: number; hint: string },
): Promise<string> {
  const { size, maxChars, hint } = options;
  const head = await readText(handle, { from: 0, length: windowBytes });
  const tail = await readText(handle, { from: size - windowBytes, length: windowBytes });
  // Progress bars may collapse to less than the room there is; then the two windows are all that is shown.
  const mark = `[… output of ${size} bytes in all, its middle is left out]`;
  return truncate(`${head}\n${mark}\n${tail}`, { maxChars, hint: `of ${size} bytes in all; ${hint}` });
}

async function readText(handle: FileHandle, range: { from: number; length: number }): Promise<string> {
  const bytes = await readBytes(handle, range);
  return cleanOutput(new TextDecoder().decode(bytes));
}

async function readBytes(handle: FileHandle, range: { from: number; length: number }): Promise<Buffer> {
  const buffer = Buffer.alloc(range.length);
  const { bytesRead } = await handle.read(buffer, 0, range.length, range.from);
  return buffer.subarray(0, bytesRead);
}
