import { z } from "zod";
import { checkFields, dollars, integer, kebabCase, parseTexts } from "../config/validation.ts";
import { ConfigError } from "../errors.ts";

const flagsSchema = z.strictObject({
  batchBudgetUsd: dollars("the most the batch may cost, in dollars,"),
  batchBudgetTokens: integer("the most tokens of prompts and replies, a whole number", {
    minimum: 1,
    maximum: 1_000_000_000_000,
  }),
});

/** The budget that flags set for a batch; undefined where they say none. Throws ConfigError naming the flags. */
export function batchBudgetFromFlags(
  flags: Record<string, unknown>,
): { usd: number | undefined; tokens: number | undefined } | undefined {
  const { batch, batchBudgetUsd, batchBudgetTokens } = flags;
  if (batchBudgetUsd === undefined && batchBudgetTokens === undefined) return undefined;
  if (batch === undefined) throw new ConfigError("expected --batch with the budget of a batch, got none");
  const checked = checkFields(flagsSchema, parseTexts(flagsSchema, { batchBudgetUsd, batchBudgetTokens }));
  if ("data" in checked) return { usd: checked.data.batchBudgetUsd, tokens: checked.data.batchBudgetTokens };
  throw new ConfigError(
    checked.problems.map(({ name, message }) => `--${kebabCase(name)}: ${message}`).join("; "),
  );
}
