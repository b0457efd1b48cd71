// What `import … from "pawl"` gives.
export { type Config, loadConfig, type Settings } from "./config.ts";
export { ConfigError, RecoverableError, TerminatingError } from "./errors.ts";
