import type { Config } from "./config.ts";
import type { TaskFields } from "./producer/fields.ts";

/** What the configuration says for tasks that do not say it themselves. */
export function taskDefaults(config: Config): TaskFields & { maxSteps: number } {
  const { maxSteps, timeLimitMs, budgetUsd, budgetTokens } = config;
  return {
    maxSteps,
    ...(timeLimitMs !== null && { timeLimitMs }),
    ...(budgetUsd !== null && { budgetUsd }),
    ...(budgetTokens !== null && { budgetTokens }),
  };
}
