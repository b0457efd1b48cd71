import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";

/** One import of a source file. */
export interface SourceImport {
  /** The importing file, relative to the source folder. */
  from: string;
  /** A file relative to the source folder, or the name of a package without its subpath. */
  to: string;
  isPackage: boolean;
  /** Types are gone at run time: such an import loads nothing. */
  isTypeOnly: boolean;
  /** Loaded when it is needed. */
  isLazy: boolean;
}

/** Every import and re-export of the TypeScript files of a folder. Relies on the formatter: statements begin a line. */
export function readImports(folder: string): SourceImport[] {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) =>
    file.endsWith(".ts"),
  );
  return files.flatMap((from) => {
    const text = readFileSync(path.join(folder, from), "utf8");
    const found = [
      ...[...text.matchAll(/^(?:import|export)\s+(type\s)?([^;"]*?)\sfrom\s+"([^"]+)"/gm)].map(
        ([, type, names = "", specifier = ""]) => ({
          specifier,
          isTypeOnly: type !== undefined || holdsTypesOnly(names),
          isLazy: false,
        }),
      ),
      ...[...text.matchAll(/^import\s+"([^"]+)"/gm)].map(([, specifier = ""]) => ({
        specifier,
        isTypeOnly: false,
        isLazy: false,
      })),
      ...[...text.matchAll(/\bimport\("([^"]+)"\)/g)].map(([, specifier = ""]) => ({
        specifier,
        isTypeOnly: false,
        isLazy: true,
      })),
    ];
    return found.map(({ specifier, ...how }) => ({ from, ...targetOf(from, specifier), ...how }));
  });
}

/** `{ type A, type B }` */
function holdsTypesOnly(names: string): boolean {
  const listed = /^\{([^}]*)\}$/s
    .exec(names.trim())?.[1]
    ?.split(",")
    .map((name) => name.trim());
  return listed?.filter(Boolean).every((name) => name.startsWith("type ")) ?? false;
}

function targetOf(from: string, specifier: string): { to: string; isPackage: boolean } {
  if (specifier.startsWith(".")) {
    return { to: path.posix.join(path.posix.dirname(from), specifier), isPackage: false };
  }
  const parts = specifier.split("/");
  return { to: parts.slice(0, specifier.startsWith("@") ? 2 : 1).join("/"), isPackage: true };
}

/** The folder of the source folder that a file is in; the file itself where it is in none. */
export function folderOf(file: string): string {
  return file.split("/")[0] ?? file;
}

/** A way from a node back to itself, or null. */
export function findCycle(edges: { from: string; to: string }[]): string[] | null {
  const targets = new Map<string, Set<string>>();
  for (const { from, to } of edges) targets.set(from, (targets.get(from) ?? new Set()).add(to));
  const done = new Set<string>();
  const visit = (node: string, way: string[]): string[] | null => {
    const start = way.indexOf(node);
    if (start !== -1) return [...way.slice(start), node];
    if (done.has(node)) return null;
    for (const target of targets.get(node) ?? []) {
      const cycle = visit(target, [...way, node]);
      if (cycle) return cycle;
    }
    done.add(node);
    return null;
  };
  for (const node of targets.keys()) {
    const cycle = visit(node, []);
    if (cycle) return cycle;
  }
  return null;
}
