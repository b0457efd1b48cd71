import { ConfigError } from "./errors.ts";

/** Throws ConfigError where nothing of pawl can work. */
export function requirePlatform(platform: NodeJS.Platform): void {
  if (platform !== "win32") return;
  throw new ConfigError(
    "expected Linux, or macOS in part, got Windows: run pawl inside of WSL (Windows Subsystem for Linux)",
  );
}

/** Whether shell commands can run under their supervisor, which needs /proc and setsid. */
export function canSupervise(platform: NodeJS.Platform): boolean {
  return platform === "linux";
}
