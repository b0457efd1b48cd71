import { lstat, readlink, realpath } from "node:fs/promises";
import path from "node:path";
import { RecoverableError } from "../errors.ts";

/** More links than this in a row are a circle. */
const maxLinks = 40;

/**
 * The real path of what the model named, for a file tool. Everything is decided on the real path of the deepest existing
 * ancestor, so that neither `..` nor a link, dangling or not, leads out of `roots`; a data directory (`.pawl`) in the first
 * root, the workspace, is closed unless a later root opens a part of it. Guards against mistakes, not against a process
 * that changes links at the same time; shell commands are not confined by it.
 */
export async function confine(
  input: string,
  roots: [workspace: string, ...others: string[]],
): Promise<string> {
  if (input.includes("\0")) throw new RecoverableError("path: expected a path, got one with a NUL character");
  const real = await resolveReal(path.resolve(roots[0], input), maxLinks);
  const [workspace = "", ...others] = await Promise.all(roots.map((root) => resolveReal(root, maxLinks)));
  if (others.some((root) => isInside(real, root))) return real;
  if (!isInside(real, workspace)) {
    throw new RecoverableError(
      `${input} is outside of the workspace ${workspace}${real === path.resolve(workspace, input) ? "" : ` (it leads to ${real})`}; ` +
        "file tools work inside of it",
    );
  }
  if (path.relative(workspace, real).split(path.sep).includes(".pawl")) {
    throw new RecoverableError(`${input} belongs to pawl's own data; file tools do not touch it`);
  }
  return real;
}

/** How a path is shown to the model: relative to the workspace where it is inside. */
export async function displayPath(real: string, workspace: string): Promise<string> {
  const root = await resolveReal(workspace, maxLinks);
  return isInside(real, root) ? path.relative(root, real) || "." : real;
}

async function resolveReal(file: string, linksLeft: number): Promise<string> {
  try {
    return await realpath(file);
  } catch (error) {
    if (!(error instanceof Error) || !("code" in error) || error.code !== "ENOENT" || linksLeft === 0) {
      throw new RecoverableError(`${file} cannot be used: ${error instanceof Error ? error.message : error}`);
    }
  }
  const parent = path.dirname(file);
  if (parent === file) return file;
  const real = path.join(await resolveReal(parent, linksLeft), path.basename(file));
  const facts = await lstat(real).catch(() => undefined);
  // A dangling link does not exist for realpath, but writing through it would create its target.
  if (facts?.isSymbolicLink() !== true) return real;
  return resolveReal(path.resolve(path.dirname(real), await readlink(real)), linksLeft - 1);
}

function isInside(file: string, root: string): boolean {
  return file === root || file.startsWith(root.endsWith(path.sep) ? root : root + path.sep);
}
