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
      return `[binary output, ${size} bytes, not shown; it is in ${file}]`;
    }
    const hint = `the whole output is in ${file}, read_file can page it`;
    if (size <= 2 * windowBytes)
      return truncate(await readText(handle, { from: 0, length: size }), { maxChars, hint });
    return await readEnds(handle, { size, maxChars, hint });
  } finally {
    await handle.close();
  }
}

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
