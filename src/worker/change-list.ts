import type { Change } from "../workspace/diff.ts";

/** Of changed paths this many are named, each to this length. */
const maxNamedPaths = 50;
const maxPathChars = 200;

/** Changed paths, a line each with A, M or D before it, and how many more there are. */
export function describeChanges(changes: Change[]): string {
  const lines = changes.slice(0, maxNamedPaths).map(({ status, path }) => `${status} ${nameOf(path)}`);
  const rest = changes.length - lines.length;
  return [...lines, ...(rest > 0 ? [`and ${rest} more`] : [])].join("\n");
}

/** The first of the changed paths. */
export function namedPaths(changes: Change[]): string[] {
  return changes.slice(0, maxNamedPaths).map(({ path }) => nameOf(path));
}

/** One line, whatever characters the name has. */
function nameOf(path: string): string {
  const line = /\p{Cc}/u.test(path) ? JSON.stringify(path) : path;
  return line.length <= maxPathChars ? line : `${line.slice(0, maxPathChars).toWellFormed()}…`;
}
