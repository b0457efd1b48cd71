// Compiles src to dist and copies the files that are read, not imported. A pawl may run from dist meanwhile, and installing
// builds again: the new build grows beside it and takes its place at once, or not at all where nothing has changed.
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

/** How often another build may come between. */
const maxSwaps = 20;

const root = path.join(import.meta.dirname, "..");
const tsc = path.join(
  path.dirname(createRequire(import.meta.url).resolve("typescript/package.json")),
  "bin",
  "tsc",
);
const dist = path.join(root, "dist");
const made = path.join(root, `dist.${process.pid}.tmp`);
const old = path.join(root, `dist.${process.pid}.old.tmp`);

removeLeftovers();
try {
  const options = ["-p", path.join(root, "tsconfig.build.json"), "--outDir", made];
  execFileSync(process.execPath, [tsc, ...options], { stdio: "inherit" });
  for (const asset of [
    "agent/prompts",
    "environment/supervisor.sh",
    "environment/prelude.sh",
    "limits/prices.json",
  ]) {
    cpSync(path.join(root, "src", asset), path.join(made, asset), { recursive: true });
  }
  chmodSync(path.join(made, "cli", "main.js"), 0o755);
  if (!isSame(made, dist)) swap();
} catch (error) {
  // The compiler has said what is wrong.
  if (error.status === undefined) console.error(error);
  process.exitCode = 1;
} finally {
  for (const folder of [made, old]) rmSync(folder, { recursive: true, force: true });
}

/** What builds left that were killed. */
function removeLeftovers() {
  for (const name of readdirSync(root)) {
    const pid = /^dist\.(\d+)\.(old\.)?tmp$/.exec(name)?.[1];
    if (pid && !isAlive(Number(pid))) rmSync(path.join(root, name), { recursive: true, force: true });
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}

function isSame(one, other) {
  const list = (folder) => readdirSync(folder, { recursive: true }).sort();
  if (!existsSync(other) || list(one).join("\n") !== list(other).join("\n")) return false;
  return list(one).every((name) => {
    const [a, b] = [one, other].map((folder) => path.join(folder, name));
    if (statSync(a).mode !== statSync(b).mode) return false;
    return statSync(a).isDirectory() || readFileSync(a).equals(readFileSync(b));
  });
}

function swap() {
  for (let tries = 1; ; tries++) {
    try {
      if (existsSync(dist)) renameSync(dist, old);
      renameSync(made, dist);
      return;
    } catch (error) {
      if (existsSync(old) && !existsSync(dist)) renameSync(old, dist);
      rmSync(old, { recursive: true, force: true });
      // Another build was between; what it put there is replaced in turn.
      if (tries >= maxSwaps || !["ENOENT", "ENOTEMPTY", "EEXIST"].includes(error.code)) throw error;
    }
  }
}
