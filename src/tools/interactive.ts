import path from "node:path";

const editors = new Set(["vi", "vim", "nvim", "nano", "pico", "emacs", "micro", "joe", "hx", "kak"]);
const screens = new Set(["top", "htop", "btop", "screen", "tmux", "watch"]);
const interpreters = new Set(
  "python python2 python3 ipython node deno irb lua ghci scala psql mysql sqlite3 redis-cli bash sh zsh fish".split(
    " ",
  ),
);

/**
 * Why a command makes no sense without a terminal; undefined for all others. Only a command that is one of these programs and
 * nothing else counts: within a script they may well be given input, and a shell's words cannot be told for certain.
 */
export function findInteractive(command: string): string | undefined {
  const text = command.trim();
  if (/[\n;&|<>()`$'"\\]/.test(text)) return undefined;
  const [program = "", ...others] = text.split(/\s+/);
  const name = path.basename(program);
  if (others.some((word) => word.startsWith("-"))) return undefined;
  if (editors.has(name))
    return `${name} is an editor and needs a terminal; change files with edit_file, write_file or sed`;
  if (screens.has(name) && (others.length === 0 || name === "watch"))
    return `${name} shows a screen until somebody ends it; use a command that prints once, such as ps`;
  if (interpreters.has(name) && others.length === 0)
    return `${name} alone waits for input, and there is none; give it a script, or code with its option for that`;
  return undefined;
}
