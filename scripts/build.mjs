// Compiles src to dist and copies the files that are read, not imported.
import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const root = path.join(import.meta.dirname, "..");
const tsc = path.join(
  path.dirname(createRequire(import.meta.url).resolve("typescript/package.json")),
  "bin",
  "tsc",
);
rmSync(path.join(root, "dist"), { recursive: true, force: true });
execFileSync(process.execPath, [tsc, "-p", path.join(root, "tsconfig.build.json")], { stdio: "inherit" });
for (const asset of ["agent/prompts", "environment/supervisor.sh", "environment/prelude.sh"]) {
  cpSync(path.join(root, "src", asset), path.join(root, "dist", asset), { recursive: true });
}
chmodSync(path.join(root, "dist", "cli", "main.js"), 0o755);
