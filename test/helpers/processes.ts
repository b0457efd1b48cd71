import { readdirSync, readFileSync } from "node:fs";

/** Command lines of the living processes (no zombies) that contain `text`. */
export function processesWith(text: string): string[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const line = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim();
        return line.includes(text) ? [line] : [];
      } catch {
        return [];
      }
    });
}
